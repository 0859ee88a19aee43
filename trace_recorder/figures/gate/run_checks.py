"""The rules about a whole run: its errors, figures, models, prompts and result.

The assertions of a test (`figures/assertions.py`) and the gate call the same functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from trace_recorder.figures.gate.checked_run import CheckedRun, PromptPart, RunFailure
from trace_recorder.figures.gate.rules import FIGURES, ErrorRules, FigureLimits, Limit, PromptComparison, ResultRules
from trace_recorder.figures.gate.violations import RuleViolation, change_lines, of_agent, value_text
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload


def check_failures(live: CheckedRun, rules: ErrorRules, golden: CheckedRun | None = None) -> Iterator[RuleViolation]:
    """Yield the failures of a run that are neither allowed nor in the good run. Ids and times make no difference."""
    if not rules.compare:
        return
    known: Counter[bytes] = Counter()
    if golden is not None:
        known.update(_failure_key(golden, failure) for failure in golden.failures)
    for failure in live.failures:
        key = _failure_key(live, failure)
        if known[key] > 0:
            known[key] -= 1
        elif not any(pattern.search(str(failure)) for pattern in rules.allowed):
            yield RuleViolation("errors", str(failure), failure.step)


def _failure_key(run: CheckedRun, failure: RunFailure) -> bytes:
    return json_digest([failure.kind, run.stripper.without(failure.message)])


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_limits(live: CheckedRun, limits: FigureLimits, golden: CheckedRun | None = None) -> Iterator[RuleViolation]:
    """Yield the figures of a run that are beyond their limits.

    A limit in per cent needs the good run. Tokens and costs are those of all answers, also of replayed ones.
    """
    for name in FIGURES:
        limit: Limit | None = getattr(limits, name)
        if limit is None:
            continue
        now, before = live.figure(name), None
        if golden is not None and limit.maximum is None:
            before = golden.figure(name)
        message = _beyond(now, before, limit)
        if message:
            yield RuleViolation("limits", f"{name}: {message}")


def _beyond(now: float | None, before: float | None, limit: Limit) -> str:
    """Return why a figure is beyond its limit, or an empty text."""
    if now is None or (before is None and limit.maximum is None):
        whose = "the golden run"
        if now is None:
            whose = "this run"
        return f"unknown in {whose}, so the limit cannot be checked" * limit.is_required
    if limit.maximum is not None:
        if now > limit.maximum:
            return f"{_number(now)}, and at most {_number(limit.maximum)} are allowed"
        return ""
    before = before or 0
    share = limit.percent / 100
    tolerance = 1e-9 * max(now, before)  # so that 1.1 times a number may be 10 % more
    if now > before * (1 + share) + tolerance:
        return f"{_number(now)}, and {_number(before)} in the golden run; at most {limit.percent:g}% more is allowed"
    if not limit.only_more and now < before * (1 - share) - tolerance:
        return f"{_number(now)}, and {_number(before)} in the golden run; at most {limit.percent:g}% less is allowed"
    return ""


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}"


# ── models and prompts ───────────────────────────────────────────────────────────────────────────────────────────────


def check_models(golden: CheckedRun, live: CheckedRun) -> Iterator[RuleViolation]:
    """Yield for each agent the models that only one of two runs asked."""
    for name in dict.fromkeys([*golden.models, *live.models]):
        before, after = golden.models.get(name, {}), live.models.get(name, {})
        if before.keys() == after.keys():
            continue
        step = next((step for model, step in after.items() if model not in before), None)
        message = f"{of_agent(name)}{_names(after)}, and {_names(before)} in the golden run"
        yield RuleViolation("models", message, step)


def _names(models: dict[str, int | None]) -> str:
    return ", ".join(models) or "no model"


def check_prompts(golden: CheckedRun, live: CheckedRun, comparison: PromptComparison) -> Iterator[RuleViolation]:
    """Yield where the agent's own part of the prompts differs from the good run.

    The parts are compared as sets, so their order, and how often the agent repeats one, make no difference.
    """
    if comparison == "nothing":
        return
    before, after = (_parts_of(run, comparison) for run in (golden, live))
    for name, what in dict.fromkeys([*before, *after]):
        gone, new = before.get((name, what), []), after.get((name, what), [])
        same = {json_digest(part.value) for part in gone} & {json_digest(part.value) for part in new}
        for old, part in zip_longest(_others(gone, same), _others(new, same)):
            yield from _changed_part(old, part)


Parts = dict[tuple[str | None, str], list[PromptPart]]


def _parts_of(run: CheckedRun, comparison: PromptComparison) -> Parts:
    parts: Parts = {}
    for part in run.prompt_parts:
        if comparison == "all" or part.what in {"system message", "developer message"}:
            parts.setdefault((part.agent, part.what), []).append(part)
    return parts


def _others(parts: Sequence[PromptPart], same: set[bytes]) -> list[PromptPart]:
    return [part for part in parts if json_digest(part.value) not in same]


def _changed_part(old: PromptPart | None, new: PromptPart | None) -> Iterator[RuleViolation]:
    if new is None and old is not None:
        message = f"{of_agent(old.agent)}{old.what} of step {old.step} in the golden run is missing: "
        yield RuleViolation("prompts", message + value_text(_shown(old)))
    elif old is None and new is not None:
        message = f"{of_agent(new.agent)}{new.what} is not in the golden run: {value_text(_shown(new))}"
        yield RuleViolation("prompts", message, new.step)
    elif old is not None and new is not None:
        for line in change_lines(_shown(old), _shown(new), new.what):
            yield RuleViolation("prompts", f"{of_agent(new.agent)}{line}", new.step)


def _shown(part: PromptPart) -> Payload:
    """Return the content of a message that has nothing else, or else the whole value."""
    if isinstance(part.value, dict) and {*part.value} == {"role", "content"}:
        return part.value["content"]
    return part.value


# ── the end of the run ───────────────────────────────────────────────────────────────────────────────────────────────


def check_result(live: CheckedRun, rules: ResultRules, golden: CheckedRun | None = None) -> Iterator[RuleViolation]:
    """Yield how the end of a run breaks the rules."""
    result = live.result
    text = result
    if not isinstance(result, str):
        text = value_text(result)
    if golden is not None and rules.compare != "nothing":
        yield from _compare_outcomes(golden, live)
    if golden is not None and rules.compare == "text":
        before, after = (run.stripper.without(run.result, of_tool=True) for run in (golden, live))
        yield from (RuleViolation("result", line) for line in change_lines(before, after, "final result"))
    for part in rules.contains:
        if part not in text:
            yield RuleViolation("result", f"final result: {value_text(result)}, and must contain {part!r}")
    if rules.matches is not None and not rules.matches.search(text):
        yield RuleViolation("result", f"final result: {value_text(result)}, and must match {rules.matches.pattern!r}")


def _compare_outcomes(golden: CheckedRun, live: CheckedRun) -> Iterator[RuleViolation]:
    before, after = golden.trajectory, live.trajectory
    if before.status != after.status:
        yield RuleViolation("result", f"status: {after.status}, and {before.status} in the golden run")
    if before.success is not None and before.success != after.success:
        words = {True: "true", False: "false", None: "unknown"}
        message = f"success: {words[after.success]}, and {words[before.success]} in the golden run"
        yield RuleViolation("result", message)
