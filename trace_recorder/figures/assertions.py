"""Assertions of a test about a run: short names for common questions, and failures that state the actual values.

All values come from the `Trajectory` of the run's journal and from the views. The rules are those of the command
`check`: both call the functions of `figures/gate/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from trace_recorder.figures.gate.checked_run import CheckedRun
from trace_recorder.figures.gate.rules import ArgumentRule, ErrorRules, FigureLimits, Limit
from trace_recorder.figures.gate.run_checks import check_failures, check_limits
from trace_recorder.figures.gate.tool_checks import (
    check_arguments,
    check_exact_calls,
    check_forbidden,
    check_in_order,
)
from trace_recorder.figures.gate.violations import RuleViolation
from trace_recorder.reading.own_files import load_own
from trace_recorder.values.messages import Payload, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory


class TrajectoryAssertions:
    """Assertions about a run, which may still be running.

    `path` is the journal of the run. `trajectory` is the whole run, for everything that has no short name here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = -1
        self._loaded = CheckedRun(Trajectory())

    @property
    def _run(self) -> CheckedRun:
        """The run. The journal is read again only if its size changed."""
        size = self.path.stat().st_size
        if size != self._size:
            self._loaded, self._size = CheckedRun(load_own(self.path)), size
        return self._loaded

    @property
    def trajectory(self) -> Trajectory:
        """The run, as `trace_recorder.load` returns it."""
        return self._run.trajectory

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The agent's steps: the recorded steps, or one step for each LLM call if the agent recorded no step."""
        return self._run.steps

    @property
    def tools_called(self) -> list[str]:
        """The names of the called tools, in the order of the steps."""
        return [call.name for call in self.tool_calls()]

    def tool_calls(self, name: str | None = None) -> list[ToolCall]:
        """Return the calls of a tool, or of all tools, in order."""
        return [made.call for made in self._run.calls if name in {None, made.call.name}]

    def tool_results(self, name: str | None = None) -> list[ToolResult]:
        """Return the results of a tool, or of all tools, in the order of the steps."""
        uses = self._run.tool_uses()
        return [use.result for use in uses if use.result is not None and name in {None, use.name}]

    @property
    def total_tokens(self) -> int | None:
        """The input and output tokens of all answers, or None if an answer does not state its tokens."""
        return self._run.tokens

    @property
    def cost(self) -> float | None:
        """The cost of all answers in US dollars, billed or estimated (extra `prices`), or None if a cost is unknown."""
        return self._run.cost

    @property
    def final_text(self) -> str | None:
        """The text of the last answer that has a text, or None."""
        return self._run.final_text

    @property
    def errors(self) -> list[str]:
        """The messages of all failures in the run, each with its place.

        Failures are LLM calls whose last attempt failed, failed tools, recorded steps with an error, and an error of
        the run.
        """
        return [str(failure) for failure in self._run.failures]

    def assert_no_errors(self) -> None:
        """Fail if anything in the run failed."""
        __tracebackhide__ = True  # pytest shows the line of the test
        _fail_with("the run has errors", check_failures(self._run, ErrorRules()))

    def assert_tools_called(self, *names: str) -> None:
        """Fail unless exactly these tools were called, in this order, and no other tool.

        The names are the exact list of the calls: `assert_tools_called("bash")` fails if bash was called twice. If
        other calls may be between them, use `assert_tools_in_order`.
        """
        __tracebackhide__ = True
        _fail_with("", check_exact_calls(self._run, names))

    def assert_tools_in_order(self, *names: str) -> None:
        """Fail unless these tools were called in this order. Other calls may be before, between and after them."""
        __tracebackhide__ = True
        _fail_with("", check_in_order(self._run, names))

    def assert_not_called(self, *names: str) -> None:
        """Fail if one of these tools was called."""
        __tracebackhide__ = True
        _fail_with("forbidden tools were called", check_forbidden(self._run, names))

    def assert_arguments(  # noqa: PLR0913 - a name for each condition
        self,
        tool: str,
        pointer: str = "",
        *,
        equals: Payload = ...,
        one_of: Iterable[Payload] | None = None,
        matches: str | None = None,
        call: int | None = None,
        golden: Path | str | Trajectory | None = None,
    ) -> None:
        """Fail unless the value at a JSON pointer in the arguments of a tool is as expected, in each call of the tool.

        The value must equal `equals`, equal one of `one_of`, match the regular expression `matches` (searched in the
        text, or in the JSON of a value that is no text), or equal the value in the same call of the run `golden`. Give
        one of these. `pointer` is "/path" for the argument `path`, and "" for all arguments. `call` is the number of
        the call, counted from 1. Raises ValueError for any other combination of arguments.

        Examples:
            >>> trajectory.assert_arguments("search", "/query", equals="sencha")
            >>> trajectory.assert_arguments("write_file", "/path", matches=r"[.]py$")
        """
        __tracebackhide__ = True
        conditions = [equals is not ..., one_of is not None, matches is not None, golden is not None]
        if sum(conditions) != 1:
            raise ValueError("assert_arguments takes one of equals, one_of, matches and golden")
        if pointer and not pointer.startswith("/"):
            raise ValueError(f'{pointer!r} is not a JSON pointer: it begins with "/", such as "/path"')
        rule = ArgumentRule(tool, pointer, call)
        if equals is not ...:
            rule = ArgumentRule(tool, pointer, call, one_of=(equals,))
        elif one_of is not None:
            rule = ArgumentRule(tool, pointer, call, one_of=tuple(one_of))
        elif matches is not None:
            rule = ArgumentRule(tool, pointer, call, matches=re.compile(matches))
        good = None
        if golden is not None:
            good = _checked(golden)
        _fail_with("", check_arguments(self._run, rule, good))

    def assert_within(
        self,
        golden: Path | str | Trajectory | None = None,
        *,
        steps: str | float | None = None,
        tokens: str | float | None = None,
        cost: str | float | None = None,
        seconds: str | float | None = None,
    ) -> None:
        """Fail if the run needs more steps, tokens, US dollars or seconds than allowed.

        A limit is "+10%" (at most 10 % more than in the run `golden`), "10%" (at most 10 % more or less), or a number,
        which needs no other run. `golden` is a run, or the path of its file. An unknown figure fails. Raises ValueError
        for any other limit, and if there is no limit.

        Examples:
            >>> trajectory.assert_within("golden/sencha.jsonl", tokens="+10%", steps="+0%")
            >>> trajectory.assert_within(tokens=5000)
        """
        __tracebackhide__ = True
        values = {"steps": steps, "tokens": tokens, "cost": cost, "seconds": seconds}
        limits = {name: Limit.of(value) for name, value in values.items() if value is not None}
        if not limits:
            raise ValueError('assert_within takes a limit of steps, tokens, cost or seconds, such as tokens="+10%"')
        if golden is None and any(limit.maximum is None for limit in limits.values()):
            raise ValueError("assert_within takes the golden run first, if a limit is in per cent")
        good = None
        if golden is not None:
            good = _checked(golden)
        _fail_with("", check_limits(self._run, FigureLimits(**{**_NO_LIMITS, **limits}), good))

    def __repr__(self) -> str:
        return f"<TrajectoryAssertions {self.path.name}>"


_NO_LIMITS: dict[str, Limit | None] = {"steps": None, "tokens": None, "cost": None}


def _checked(golden: Path | str | Trajectory) -> CheckedRun:
    if isinstance(golden, Trajectory):
        return CheckedRun(golden)
    return CheckedRun(load_own(Path(golden)))


def _fail_with(title: str, violations: Iterable[RuleViolation]) -> None:
    """Raise AssertionError with the violations, if there are any."""
    __tracebackhide__ = True
    lines = [violation.message for violation in violations]
    if lines:
        raise AssertionError("\n  ".join(filter(None, [title and f"{title}:", *lines])))
