"""The tools about one run: `show_run`, `show_step` and `read_value`.

The values of a run form one document, in which each value has a JSON pointer: `/run/…` has the facts of the run,
`/messages/N/…` a message of the prompts, `/interactions/N/…` the answer and the attempts of an LLM call, and
`/steps/N/…` a step with its tools. A message keeps its number while a run grows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated

from msgspec import Meta

from trace_recorder.mcp_server.answers import Cutter, Json, beginning_of, fitting
from trace_recorder.mcp_server.served_runs import ServedRuns, WorkTime
from trace_recorder.mcp_server.server_tool import RunId, ServerTool, ToolArguments
from trace_recorder.reading.steps_and_calls import StepOrCall, steps_and_calls
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.outline import run_facts
from trace_recorder.viewer.parameters import BadRequestError, NotFoundError
from trace_recorder.viewer.parts import WHOLE

MAX_ROWS = 500
FRAME_CHARACTERS = 1000
"""The characters of an answer that are not values of a run."""
MAX_TOOLS = 20
"""A row of `show_run` has at most this many tools."""


class ShowRun(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `show_run`."""

    run: RunId
    first: Annotated[int, Meta(description="The first row, from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="At most this many rows.", ge=1, le=MAX_ROWS)] = 50


def show_run(runs: ServedRuns, arguments: ShowRun, _: WorkTime) -> Json:
    """Return the facts of a run, and rows of its steps and calls."""
    run = runs.opened(arguments.run)
    with run.lock:
        outline = _Outline(run.answers)
        answer: Json = {"rows": len(outline.parts)}
        room = arguments.max_characters - FRAME_CHARACTERS
        if arguments.first == 1:
            facts = {
                name: value
                for name, value in run_facts(run.answers.trajectory, WHOLE).items()
                if value not in (None, [], {})
            }
            facts_cutter = Cutter(room // 3)
            answer |= facts_cutter.fit(facts, "/run")
            room -= room // 3 - facts_cutter.remaining
        parts = outline.parts[arguments.first - 1 :][: arguments.limit]
        answer["steps"] = fitting(map(outline.row, parts), room)
    following = arguments.first + len(answer["steps"])
    if following <= len(outline.parts):
        answer["next_first"] = following
    return answer


class _Outline:
    """The steps and calls of a run in the order of time, with the entries that the viewer has for them."""

    def __init__(self, answers: RunAnswers) -> None:
        outline = answers.outline()
        run = answers.trajectory
        self.answers = answers
        self.parts = steps_and_calls(run)
        self._calls: dict[str, Json] = {entry["id"]: entry for entry in outline["interactions"]}
        self._steps: dict[int, Json] = {
            id(step): entry for step, entry in zip(run.agent_steps, outline["steps"], strict=True)
        }

    def call_of(self, part: StepOrCall) -> Json | None:
        """Return the entry of a part's call."""
        if part.call is None:
            return None
        return self._calls[part.call.interaction_id]

    def step_of(self, part: StepOrCall) -> Json | None:
        """Return the entry of a part's step."""
        if part.step is None:
            return None
        return self._steps[id(part.step)]

    def row(self, part: StepOrCall) -> Json:
        """Return the row of a step or a call in `show_run`."""
        call, step = self.call_of(part), self.step_of(part)
        row = without_none(step=part.step_number)
        tools: list[Json] = []
        if call is not None:
            row |= without_none(interaction=call["id"], **{name: call[name] for name in _CALL_MEMBERS})
            row |= {name: True for name in ("side_call", "run_inferred", "agent_inferred") if call[name]}
            tools = [{"name": tool["name"], "argument": tool["argument"]} for tool in call["tool_calls"]]
        if step is not None:
            row |= without_none(**{name: step[name] for name in _STEP_MEMBERS})
            tools = [_tool(tool) for tool in step["tool_calls"]]
        if tools:
            row["tools"] = tools[:MAX_TOOLS]
            row |= without_none(more_tools=len(tools[MAX_TOOLS:]) or None)
        return dict(Cutter(3000, longest=300).fit(row, None))


_CALL_MEMBERS = (
    *("agent", "start_seconds", "duration_seconds", "model", "prompt_tokens", "completion_tokens", "cost"),
    *("finish_reason", "incomplete", "replayed_from", "error", "excerpt"),
)
_STEP_MEMBERS = ("agent", "start_seconds", "duration_seconds", "state", "reflection", "error")


def _tool(entry: Mapping[str, Payload]) -> Json:
    return without_none(
        name=entry["name"],
        argument=entry["argument"],
        success=entry["success"],
        answered=None if entry["answered"] else False,
        result=entry["result_excerpt"],
        error=entry["error"],
    )


class ShowStep(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `show_step`."""

    run: RunId
    step: Annotated[int | None, Meta(description="The `step` of a row of show_run, or of a match.")] = None
    interaction: Annotated[
        str, Meta(description="In place of the step: the `interaction` of a row, such as llm_3.", max_length=1000)
    ] = ""


def show_step(runs: ServedRuns, arguments: ShowStep, _: WorkTime) -> Json:
    """Return a step with its calls, or one call."""
    if (arguments.step is None) == (not arguments.interaction):
        raise BadRequestError("give the number of a step, or the id of an interaction")
    run = runs.opened(arguments.run)
    with run.lock:
        outline = _Outline(run.answers)
        parts = [part for part in outline.parts if _is_wanted(part, arguments)]
        if not parts:
            raise NotFoundError(f"the run has no such step or interaction; show_run lists {len(outline.parts)} rows")
        cutter = Cutter(arguments.max_characters - FRAME_CHARACTERS, longest=arguments.max_characters // 4)
        shown: list[Json] = []
        for number, part in enumerate(parts):
            if number and cutter.remaining <= 0:
                break
            shown.append(_part(outline, part, cutter))
        answer: Json = {"parts": shown}
        if len(shown) < len(parts):
            answer["more_interactions"] = [
                part.call.interaction_id for part in parts[len(shown) :][:MAX_TOOLS] if part.call is not None
            ]
    return answer


def _is_wanted(part: StepOrCall, arguments: ShowStep) -> bool:
    if arguments.interaction:
        return part.call is not None and part.call.interaction_id == arguments.interaction
    return part.step_number == arguments.step


def _part(outline: _Outline, part: StepOrCall, cutter: Cutter) -> Json:
    """Return a step with its call, or a call without a step.

    The answer and the tools are cut first, so that a long prompt leaves them their room.
    """
    call, step = outline.call_of(part), outline.step_of(part)
    shown = outline.row(part)
    for name in ("excerpt", "tools", "more_tools"):
        shown.pop(name, None)
    contents: Json = {}
    if call is not None:
        [detail] = outline.answers.interactions([call["number"]], WHOLE)
        contents |= _answer_contents(detail, f"/interactions/{call['number']}", cutter, with_tools=step is None)
    if step is not None:
        [detail] = outline.answers.steps([step["number"]], WHOLE)
        members = {name: detail[name] for name in _STEP_CONTENTS if detail[name]}
        if "tool_calls" in members:
            members["tool_calls"] = [*map(_known_members, members["tool_calls"])]
        contents |= cutter.fit(members, f"/steps/{step['number']}")
    if call is not None:
        shown["prompt"] = _prompt(outline.answers, call["prompt"], cutter)
    return shown | contents


def _known_members(use: Mapping[str, Payload]) -> Json:
    """Return a tool call with its result, without unknown members. The pointers of all others stay right."""
    known = without_none(**use)
    if "result" in known:
        known["result"] = without_none(**known["result"])
    return known


_STEP_CONTENTS = ("error", "reflection", "tool_calls", "response", "messages", "extra")


def _answer_contents(detail: Json, pointer: str, cutter: Cutter, *, with_tools: bool) -> Json:
    """Return the answer of a call. Its tool calls are left out if the step has them with their results."""
    contents: Json = {}
    response = detail["response"]
    if detail["error"]:
        contents["call_error"] = cutter.fit(detail["error"], f"{pointer}/error")
    if len(detail["attempts"]) > 1:
        contents["attempts"] = cutter.fit(detail["attempts"], f"{pointer}/attempts")
    if response is not None:
        contents["answer"] = [
            cutter.fit(part, f"{pointer}/response/parts/{position}")
            for position, part in enumerate(response["parts"])
            if with_tools or part["type"] != "tool_call"
        ]
        if response["choices"]:
            contents["choices"] = cutter.fit(response["choices"], f"{pointer}/response/choices")
    return contents


def _prompt(answers: RunAnswers, prompt: Mapping[str, Payload], cutter: Cutter) -> Json:
    """Return the prompt of a call: how long it is, which call it continues, and its new messages."""
    if not prompt["known"]:
        return {"known": False}
    repeated = {*prompt["answers"]}
    inserted = [span for change in prompt["changes"] for span in change[2]]
    numbers = [number for first, last in inserted for number in range(first, last + 1) if number not in repeated]
    shown: Json = {"messages": prompt["count"], "characters": prompt["characters"], "relation": prompt["relation"]}
    if prompt["base"] is not None:
        shown["continues"] = answers.trajectory.llm_interactions[prompt["base"] - 1].interaction_id
    removed = sum(change[1] for change in prompt["changes"])
    shown |= without_none(gone=removed or None)
    new: list[Json] = []
    for number in numbers:
        if new and cutter.remaining <= 0:
            break
        [message] = answers.messages([number], WHOLE)
        new.append(dict(cutter.fit(message, f"/messages/{number}")))
    shown["new"] = new
    if len(new) < len(numbers):
        shown["not_shown"] = f"{len(numbers) - len(new)} new messages: read_value returns them by their pointers"
        shown["pointers"] = [f"/messages/{number}" for number in numbers[len(new) :][:MAX_TOOLS]]
    return shown


class ReadValue(ToolArguments, frozen=True, kw_only=True):
    """The arguments of `read_value`."""

    run: RunId
    pointer: Annotated[
        str,
        Meta(
            description="The `pointer` of a cut value. /run, /messages/N, /interactions/N, /steps/N are whole ones.",
            max_length=1200,
        ),
    ]
    start: Annotated[int, Meta(description="The first character, from 0.", ge=0)] = 0


def value_range(runs: ServedRuns, arguments: ReadValue, _: WorkTime) -> Json:
    """Return a range of a text of a run, or of another value's JSON text."""
    run = runs.opened(arguments.run)
    with run.lock:
        value = _value_at(run.answers, arguments.pointer)
    answer: Json = {}
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
        answer["is_json"] = True
    room = arguments.max_characters - FRAME_CHARACTERS
    text = beginning_of(value[arguments.start : arguments.start + room], room)
    end = arguments.start + len(text)
    answer |= {"characters": len(value), "start": arguments.start, "text": text}
    if end < len(value):
        answer["next_start"] = end
    return answer


def _value_at(answers: RunAnswers, pointer: str) -> Payload:
    """Return the value at a JSON pointer. Raises NotFoundError."""
    kind, *names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]] or [""]
    if kind == "run":
        value: Payload = run_facts(answers.trajectory, WHOLE)
    elif kind in _KINDS and names and _is_number(names[0]):
        try:
            [value] = _KINDS[kind](answers, [int(names.pop(0))], WHOLE)
        except IndexError:
            raise NotFoundError(f"the run has no value at {pointer!r}") from None
    else:
        raise NotFoundError(
            f"{pointer!r} is no pointer: those begin with /run, /messages/N, /interactions/N or /steps/N"
        )
    for name in names:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _is_number(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise NotFoundError(f"the run has no value at {pointer!r}")
    return value


_KINDS: dict[str, Callable[..., list[Json]]] = {
    "messages": RunAnswers.messages,
    "interactions": RunAnswers.interactions,
    "steps": RunAnswers.steps,
}


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10


SHOW_RUN = ServerTool(
    "show_run",
    "Show a run: its task, result, error, metadata and figures, and one row for each step and LLM call with the "
    "beginnings of its answer and of its tools' results.",
    ShowRun,
    show_run,
)
SHOW_STEP = ServerTool(
    "show_step",
    "Show one step or LLM call of a run: the new messages of its prompt, the answer, the tool calls with their "
    "results, and the errors. A value with `cut` is not whole: read_value takes its `pointer`.",
    ShowStep,
    show_step,
)
READ_VALUE = ServerTool(
    "read_value",
    "Read a value of a run that an answer has cut: a range of its characters, from `start`. `next_start` is where the "
    "next call goes on.",
    ReadValue,
    value_range,
)
