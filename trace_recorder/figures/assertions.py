"""Assertions of a test about a run: short names for common questions, and failures that state the actual values.

All values come from the `Trajectory` of the run's journal and from the views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_recorder.figures.cost import cost_of
from trace_recorder.reading.own_files import load_own
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction
from trace_recorder.values.messages import ToolCall, ToolResult
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.tool_uses import ToolUse, tool_uses
from trace_recorder.values.trajectory import AgentStep, Trajectory


class TrajectoryAssertions:
    """Assertions about a run, which may still be running.

    `path` is the journal of the run. `trajectory` is the whole run, for everything that has no short name here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = -1
        self._loaded = Trajectory()

    @property
    def trajectory(self) -> Trajectory:
        """The run, as `trace_recorder.load` returns it. The journal is read again only if its size changed."""
        size = self.path.stat().st_size
        if size != self._size:
            self._loaded, self._size = load_own(self.path), size
        return self._loaded

    @property
    def steps(self) -> Sequence[AgentStep]:
        """The agent's steps: the recorded steps, or one step for each LLM call if the agent recorded no step."""
        return self.trajectory.agent_steps

    @property
    def tools_called(self) -> list[str]:
        """The names of the called tools, in the order of the steps."""
        return [call.name for call in self.tool_calls()]

    def tool_calls(self, name: str | None = None) -> list[ToolCall]:
        """Return the calls of a tool, or of all tools, in order."""
        calls = [call for step in self.steps for call in step.tool_calls]
        return [call for call in calls if name in {None, call.name}]

    def tool_results(self, name: str | None = None) -> list[ToolResult]:
        """Return the results of a tool, or of all tools, in the order of the steps."""
        return [use.result for use in self._tool_uses() if use.result is not None and name in {None, use.name}]

    def _tool_uses(self) -> Iterator[ToolUse]:
        for step in self.steps:
            yield from tool_uses(step.tool_calls, step.tool_results)

    @property
    def total_tokens(self) -> int | None:
        """The input and output tokens of all answers, or None if an answer does not state its tokens."""
        total = 0
        for call in self._answered():
            counts = counts_of(call)
            if counts is None or counts.prompt is None or counts.completion is None:
                return None
            total += counts.prompt + counts.completion
        return total

    @property
    def cost(self) -> float | None:
        """The cost of all answers in US dollars, billed or estimated (extra `prices`), or None if a cost is unknown."""
        amounts = []
        for call in self._answered():
            cost = cost_of(call)
            if cost is None:
                return None
            amounts.append(cost.amount)
        return sum(amounts)

    def _answered(self) -> list[LLMInteraction]:
        return [call for call in self.trajectory.llm_interactions if call.answered]

    @property
    def final_text(self) -> str | None:
        """The text of the last answer that has a text, or None."""
        answers = [call.response.content for call in self.trajectory.llm_interactions if call.response.content]
        return answers[-1] if answers else None

    @property
    def errors(self) -> list[str]:
        """The messages of all failures in the run, each with its place.

        Failures are LLM calls whose last attempt failed, failed tools, recorded steps with an error, and an error of
        the run.
        """
        run = self.trajectory
        messages = [f"{call.interaction_id}: {_text(call.error)}" for call in run.llm_interactions if call.error]
        messages += [
            f"{use.name}: {use.result.error or 'no reason given'}"
            for use in self._tool_uses()
            if use.result is not None and use.failed
        ]
        messages += [f"step {step.step_number}: {step.error}" for step in self.steps if step.error and not step.derived]
        if run.error:
            messages.append(f"the run: {_text(run.error)}")
        return messages

    def assert_no_errors(self) -> None:
        """Fail if anything in the run failed."""
        __tracebackhide__ = True  # pytest shows the line of the test
        errors = self.errors
        if errors:
            raise AssertionError("\n  ".join(["the run has errors:", *errors]))

    def assert_tools_called(self, *names: str) -> None:
        """Fail unless exactly these tools were called, in this order."""
        __tracebackhide__ = True
        called = self.tools_called
        if called != [*names]:
            raise AssertionError(f"tools called: {called}\n  expected:     {[*names]}")

    def __repr__(self) -> str:
        return f"<TrajectoryAssertions {self.path.name}>"


def _text(error: ErrorInfo) -> str:
    return f"{error.type}: {error.message}"
