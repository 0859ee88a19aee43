"""ToolBrain: a run as its `Trace`, a list of `Turn`s (`toolbrain.core_types`, 0.1.4). Rewards are functions of a trace.

A turn is one call with an answer. Unknown members are None. Prompt and completion cannot be None, so calls that failed,
are in flight or have a damaged request are left out. `docs/views/training.md` lists what the format cannot carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, overload

from trace_recorder.figures.content.chat_form import text_of_result_message
from trace_recorder.figures.content.kinds import NAMES, THOUGHTS
from trace_recorder.figures.conversations.side_calls import side_calls
from trace_recorder.figures.conversations.steps_of_turns import AnsweredTurn, answered_turns
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import (
    ARGUMENTS,
    REPLAYED,
    SIDE_CALLS,
    SIDES,
    ContentSupport,
    FormatSupport,
    count_all_but,
    count_unsupported_contents,
)
from trace_recorder.formats.toolbrain.chat_template import ChatTemplate, Renderer
from trace_recorder.formats.toolbrain.parsing import ParsedCompletion, Parser, observation_of, parse_tool_calls
from trace_recorder.formats.toolbrain.rendering import PlainText, Rendering
from trace_recorder.reading.relations.turn import answer_of
from trace_recorder.values.json_text import write_json
from trace_recorder.values.messages import Message, Payload, ToolResult
from trace_recorder.values.trajectory import Trajectory

_IN_PLAIN_TEXT: FormatSupport = dict.fromkeys(SIDES, ContentSupport.of(THOUGHTS, NAMES, locations=("part", "images")))
"""The plain form writes every part as JSON."""
_IN_A_TEMPLATE: FormatSupport = dict.fromkeys(SIDES, ContentSupport.of(THOUGHTS))
"""A chat template may show, change or drop parts that are not text."""


_READ_WIDTHS = 8
"""`_end_in_one_line` reads this many times the width of a line from the end of a text.

One width is not enough, because white space in the text is shortened.
"""


class ToolBrainTurn(TypedDict):
    """One call to a model with its results. A turn always has all six members."""

    prompt_for_model: str
    model_completion: str
    parsed_completion: ParsedCompletion
    tool_output: str | None
    action_output: Payload
    formatted_conversation: str | None


@view
def to_turns(  # noqa: PLR0913 - each keyword is an independent option
    left_out: LeftOut,
    trajectory: Trajectory,
    parser: Parser = parse_tool_calls,
    chat_template: str | Renderer | None = None,
    *,
    agent: str | None = None,
    action_output: Literal["object", "text"] = "object",
    template_variables: Mapping[str, Payload] | None = None,
    include_replayed: bool = False,
) -> list[ToolBrainTurn]:
    """Return a run as a ToolBrain trace.

    `chat_template` is the Jinja source of the model's template, or any object with `apply_chat_template`, such as the
    model's Hugging Face tokenizer. Prompts are then the exact strings. If there is no template, a prompt is everything
    that was sent, in a plain form. `agent` selects the turns of one agent, by its name or its id. The member
    `action_output` of a turn is the object that a tool returned. For several tool calls it is a list of objects. If the
    agent recorded no result, it is None. If the argument `action_output` is "text", the member is a text, as
    toolbrain's own type requires. Calls whose answers a replay or a fork gave are only in the prompts of later turns.
    Side calls are in no prompt. If `include_replayed` is True, these two kinds of calls are turns too. Raises
    RenderingError if the template refuses the messages.
    """
    selection = _TurnSelection(agent, include_replayed=include_replayed)
    turns = _turns(left_out, trajectory, parser, chat_template, selection, template_variables)
    if action_output == "text":
        return [_with_text_output(turn) for turn in turns]
    return [*turns]


@view
def turns_one_by_one(
    left_out: LeftOut, trajectory: Trajectory, parser: Parser = parse_tool_calls, *, include_replayed: bool = False
) -> Sequence[ToolBrainTurn]:
    """Return the turns that `to_turns` returns, as a lazy sequence.

    Each turn is made when it is read, because each turn has the whole history in its prompt.
    """
    return _turns(left_out, trajectory, parser, None, _TurnSelection(include_replayed=include_replayed), None)


@dataclass(frozen=True, slots=True)
class _TurnSelection:
    """Selects which calls are turns: those of the agent `agent` (a name or an id), or of all agents if `agent` is None.

    Calls whose answers a replay or a fork gave are included only if `include_replayed` is True.
    """

    agent: str | None = None
    include_replayed: bool = False

    def has(self, answered: AnsweredTurn) -> bool:
        is_of_agent = self.agent in {None, answered.interaction.agent, answered.interaction.agent_id}
        return is_of_agent and (self.include_replayed or answered.turn.was_made)


def _turns(  # noqa: PLR0913, PLR0917 - those of `to_turns`
    left_out: LeftOut,
    trajectory: Trajectory,
    parser: Parser,
    chat_template: str | Renderer | None,
    selection: _TurnSelection,
    variables: Mapping[str, Payload] | None,
) -> _LazyTurns:
    count_all_but(trajectory, left_out, ARGUMENTS)
    renderer = _renderer(chat_template)
    all_turns = answered_turns(trajectory)
    supported = _IN_A_TEMPLATE
    if chat_template is None:
        supported = _IN_PLAIN_TEXT
    count_unsupported_contents((answered.turn for answered in all_turns), left_out, supported)
    known = [each for each in all_turns if each.turn.answered and each.interaction.source.has_request()]
    if not selection.include_replayed:
        excluded = side_calls(trajectory, [answered.turn for answered in all_turns])
        left_out.add(SIDE_CALLS, len(excluded))
        left_out.add(REPLAYED, sum(not answered.turn.was_made for answered in known))
        known = [answered for answered in known if answered.turn not in excluded]
    return _LazyTurns([*filter(selection.has, known)], parser, renderer, dict(variables or {}))


@dataclass(frozen=True, slots=True)
class _LazyTurns(Sequence[ToolBrainTurn]):
    """The turns of some calls, each made when it is read."""

    answered: list[AnsweredTurn]
    parser: Parser
    renderer: Renderer | PlainText
    variables: dict[str, Payload]

    def __len__(self) -> int:
        return len(self.answered)

    @overload
    def __getitem__(self, index: int) -> ToolBrainTurn: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ToolBrainTurn]: ...

    def __getitem__(self, index: int | slice) -> ToolBrainTurn | Sequence[ToolBrainTurn]:
        if isinstance(index, slice):
            return replace(self, answered=self.answered[index])
        return _turn(self.answered[index], self.parser, self.renderer, self.variables)


def _renderer(chat_template: str | Renderer | None) -> Renderer | PlainText:
    if chat_template is None:
        return PlainText()
    if isinstance(chat_template, str):
        return ChatTemplate(chat_template)
    return chat_template


def _turn(
    answered: AnsweredTurn, parser: Parser, renderer: Renderer | PlainText, variables: dict[str, Payload]
) -> ToolBrainTurn:
    rendering = Rendering.of(answered.turn, renderer, variables)
    parsed = parser(answered.response)
    answer, after = answer_of(answered.response), _result_messages(answered, parsed)
    prompt = rendering.prompt()
    return {
        "prompt_for_model": prompt,
        "model_completion": rendering.completion(prompt, answer),
        "parsed_completion": parsed,
        "tool_output": _tool_output(answered, after),
        "action_output": _action_output(answered),
        "formatted_conversation": rendering.conversation(answer, after),
    }


def _result_messages(answered: AnsweredTurn, parsed: ParsedCompletion) -> list[Message]:
    """Return the tool results as the model saw them.

    For an agent that calls tools by text, these are the next messages.
    """
    if parsed["tool_code"] and not answered.response.tool_calls and answered.next_messages:
        return list(answered.next_messages)
    return answered.tool_messages()


def _tool_output(answered: AnsweredTurn, after: Sequence[Message]) -> str | None:
    """Return the tool results as text, or None.

    For an agent that calls tools by text, the label that its loop adds is removed.
    """
    if not after:
        return None
    text = "\n".join(map(text_of_result_message, after))
    if answered.response.tool_calls:
        return text
    return observation_of(text)


def _action_output(answered: AnsweredTurn) -> Payload:
    """Return the object that the tool returned, or a list for several tools.

    Return None if the agent recorded no result.
    """
    results: list[ToolResult | None] = [answered.result_of(call.call_id) for call in answered.response.tool_calls]
    if not answered.response.tool_calls:
        results = [*answered.results]
    if not any(results):
        return None
    objects = [*map(_object_of, results)]
    if len(objects) == 1:
        return objects[0]
    return objects


def _object_of(result: ToolResult | None) -> Payload:
    """Return the object that a tool returned, or else its error."""
    if result is None:
        return None
    if result.result is not None:
        return result.result
    return result.error


def _with_text_output(turn: ToolBrainTurn) -> ToolBrainTurn:
    """Return the same turn with `action_output` as text, as toolbrain's own type requires."""
    if turn["action_output"] is None:
        return turn
    return {**turn, "action_output": _text_of(turn["action_output"])}


def format_turns(trace: Sequence[ToolBrainTurn], width: int = 100) -> Iterator[str]:
    """Yield lines that describe a trace: the end of each prompt, the answer, the results, and warnings."""
    if trace:
        yield f"Trace of {len(trace)} turn{'s' * (len(trace) > 1)}"
    else:
        yield "WARNING: the trace is empty"
    for number, turn in enumerate(trace, start=1):
        yield f"=== Turn {number} ==="
        yield from _turn_lines(turn, width)
        yield from (f"WARNING: {warning}" for warning in _warnings(turn))


def _turn_lines(turn: ToolBrainTurn, width: int) -> Iterator[str]:
    """Yield a turn's members, one on each line. Only the end of the prompt is shown, because the rest is not new."""
    parsed = turn["parsed_completion"]
    output = turn["action_output"]
    if output is None:
        output = turn["tool_output"]
    rows = {
        "Model said": turn["model_completion"],
        "Thought": parsed["thought"],
        "Tool code": parsed["tool_code"],
        "Final answer": parsed["final_answer"],
        "Tool result": output,
    }
    yield f"Model saw: {_end_in_one_line(turn['prompt_for_model'], width)}"
    for name, value in rows.items():
        if value is None:
            continue
        text = _in_one_line(value)
        if len(text) > width:
            text = f"{text[: width - 3]}..."
        yield f"{name}: {text}"


def _end_in_one_line(text: str, width: int) -> str:
    """Return a text on one line, or only its end if the text has more than `width` characters."""
    line = _in_one_line(text[-_READ_WIDTHS * width :])
    if len(line) <= width:  # the text is short, or its end is mostly white space
        line = _in_one_line(text)
    if len(line) <= width:
        return line
    return f"...{line[3 - width :]}"


def _in_one_line(value: Payload) -> str:
    return " ".join(_text_of(value).split())


def _text_of(value: Payload) -> str:
    if isinstance(value, str):
        return value
    return write_json(value)


def _warnings(turn: ToolBrainTurn) -> Iterator[str]:
    outputs = [output for output in (turn["action_output"], turn["tool_output"]) if output is not None]
    if turn["parsed_completion"]["tool_code"] and not outputs:
        yield "tool code without output"
    if any("error" in str(output).lower() for output in outputs):
        yield "the tool's output mentions an error"
    if not turn["model_completion"].strip():
        yield "the model's completion is empty"
    if not any(turn["parsed_completion"].values()):
        yield "nothing could be parsed from the completion"
