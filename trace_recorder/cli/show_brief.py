"""One line for each step of a run: what it took, which tools it used, and the first words of the answer.

No prompt is compared with an earlier one, so the lines of a long run are made quickly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.cells import cell_len, set_cell_size

from trace_recorder.cli.run_header import text_of_error
from trace_recorder.cli.text_layout import in_one_line, rounded_number, seconds, shown_text
from trace_recorder.figures.call_figures import counted_usage
from trace_recorder.figures.conversations.run_agents import RunAgents
from trace_recorder.reading.steps_and_calls import StepOrCall
from trace_recorder.values.messages import Payload
from trace_recorder.values.tool_uses import ToolUse, tool_uses
from trace_recorder.viewer.parts import excerpt, first_argument

_GAP = "  "
_MAX_TOOLS_WIDTH = 60
"""The tools take at most this width, or a third of the terminal."""


@dataclass(frozen=True, slots=True)
class BriefTool:
    """A tool that a step used. `success` is None if no result, or only a result without a judgement, is known."""

    name: str
    argument: str | None
    success: bool | None
    has_result: bool

    def __str__(self) -> str:
        outcome = "no result"
        if self.success is False:
            outcome = "failed"
        elif self.has_result:
            outcome = "ok"
        return f"{' '.join(filter(None, (self.name, self.argument)))}: {outcome}"


@dataclass(frozen=True, slots=True)
class BriefStep:
    """A step, or a call that belongs to no derived step. `answer` is the beginning of the answer on one line."""

    step_number: int | None
    interaction_id: str | None
    agent: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    duration_seconds: float | None
    tools: list[BriefTool]
    answer: str | None
    error: str | None


def brief_step(part: StepOrCall, agents: RunAgents) -> BriefStep:
    """Return the facts of a step or call that its line shows. `agents` are the agents of the run."""
    step, call, response = part.step, part.call, part.response
    identity = model = duration = answer = None
    error = ""
    usage: Mapping[str, Payload] = {}
    if response is not None:
        usage, model, answer = response.usage.to_document(), response.model, excerpt(response.content)
    if call is not None:
        identity, duration = call.interaction_id, call.duration_seconds
        usage, model, error = counted_usage(call), call.model or model, text_of_error(call.error)
    if step is not None:
        error = error or shown_text(step.error)
        if duration is None:
            duration = step.duration_seconds
    agent = agents.of_part(part)
    return BriefStep(
        step_number=part.step_number,
        interaction_id=identity,
        agent=agent.name or agent.agent_id,
        model=model,
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        duration_seconds=duration,
        tools=[_tool(use) for use in tool_uses(part.tool_calls, part.tool_results)],
        answer=answer,
        error=error or None,
    )


def _tool(use: ToolUse) -> BriefTool:
    argument = success = None
    if use.call is not None:
        argument = first_argument(use.call.arguments)
    if use.result is not None:
        success = use.result.success
    return BriefTool(use.name, argument, success, use.result is not None)


def brief_json(parts: Iterable[StepOrCall], agents: RunAgents) -> list[dict[str, Payload]]:
    """Return the lines as JSON objects."""
    return [asdict(brief_step(part, agents)) for part in parts]


def brief_lines(parts: Sequence[StepOrCall], agents: RunAgents, width: int | None) -> Iterator[str]:
    """Yield the titles, and a line for each step. `width` is the width of the terminal, or None for no limit."""
    rows = [_TITLES, *(_row(brief_step(part, agents)) for part in parts)]
    tools_width = _MAX_TOOLS_WIDTH
    if width is not None:
        tools_width = min(tools_width, width // 3)
    limits = dict.fromkeys(range(len(_TITLES) - 1)) | {_TITLES.index("tools"): tools_width}
    widths = {}
    for place, limit in limits.items():
        longest = max(cell_len(row[place]) for row in rows)
        widths[place] = min(longest, limit or longest)
    shown = [place for place in widths if any(row[place] for row in rows[1:])]
    for row in rows:
        cells = [_fitted(row[place], widths[place], right=_TITLES[place] in _FIGURES) for place in shown]
        line = _GAP.join([*cells, row[-1]]).rstrip()
        if width is not None and cell_len(line) > width:
            line = _cut(line, width)
        yield line


_TITLES = ("step", "agent", "model", "in", "out", "took", "tools", "answer")
_FIGURES = {"in", "out", "took"}


def _row(step: BriefStep) -> tuple[str, ...]:
    numbers = [shown_text(step.step_number)]
    if step.step_number is None:
        numbers = [step.interaction_id or ""]
    answer = step.answer or ""
    if step.error:
        answer = f"error: {step.error} {answer}".rstrip()
    cells = (
        *numbers,
        step.agent or "",
        step.model or "",
        rounded_number(step.input_tokens),
        rounded_number(step.output_tokens),
        seconds(step.duration_seconds),
        ", ".join(map(str, step.tools)),
        answer,
    )
    return tuple(in_one_line(shown_text(cell)) for cell in cells)


def _fitted(cell: str, width: int, *, right: bool) -> str:
    missing = width - cell_len(cell)
    if missing < 0:
        return _cut(cell, width)
    if right:
        return " " * missing + cell
    return cell + " " * missing


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, width - 3) + "..."
