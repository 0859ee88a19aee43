"""A dialect, an import format and an export format that are defined outside of the package, and registered.

Echo's dialect: requests `{"model", "system", "turns": [{"who", "text"}]}`, answers `{"text", "stop", "tokens"}`, at
/v1/echo. Its notes are lines of `{"asked", "heard"}`. Pairs are rows of a question and an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trace_recorder.dialects.dialect import Dialect, History
from trace_recorder.dialects.json_access import Members, as_dict, as_text, json_value
from trace_recorder.dialects.message_text import text_of
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.formats.foreign_runs.run import Call, ForeignConversation, ForeignRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.format_writer import FormatWriter, LeftOut, view
from trace_recorder.registry import DIALECTS, register_format, unregister_format
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Payload, RequestReading, Usage
from trace_recorder.values.token_counts import CACHE_APART
from trace_recorder.values.trajectory import Trajectory


def read_turn(element: Payload) -> list[Message]:
    members = Members(element)
    who, text = members.text("who"), members.text("text")
    return [Message("assistant" if who == "echo" else "user", text, extra=members.rest())]


def read_request(body: Payload) -> RequestReading:
    members = Members(body)
    system = members.text("system")
    first = [] if system is None else [Message("system", system)]
    messages = [*first, *(message for turn in members.array("turns") for message in read_turn(turn))]
    return RequestReading(messages, [], members.all(), as_text(as_dict(body).get("model")), len(first))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 - echo has no tool calls
    members = Members(body)
    text, reason, tokens = members.text("text"), members.text("stop"), members.nested("tokens")
    return LLMResponse(
        content=text,
        finish_reason=reason,
        usage=Usage(tokens.integer("in"), tokens.integer("out"), None, tokens.integer("cached")),
        choices=() if text is None else (Choice(0, text, finish_reason=reason),),
        extra=members.rest(),
    )


def join_stream(text: str) -> JoinedStream:
    parts = [as_dict(json_value(data)) for _, data in events(text)]
    if not parts:
        return unstreamed(text)
    body = parts[-1] | {"text": "".join(as_text(part.get("text")) or "" for part in parts)}
    return JoinedStream(body, ended="stop" in body, events=len(parts))


ECHO = Dialect(
    name="echo-chat",
    addresses={r"/v1/echo/?$": "echo"},
    sdks=("openai",),
    headers={"echo-version": "1"},
    operation="text_completion",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=lambda message: {"echo": message},
    history=History("turns", read_turn),
    numbers_calls=True,
    instructions_apart=True,
    with_system=lambda body, text: {**body, "system": text},
    counting=CACHE_APART,
    usage_on_request=False,
    background=None,
    websockets=None,
)


def _is_note(value: Payload) -> bool:
    return {"asked", "heard"} <= as_dict(value).keys()


def _read_notes(source: Source) -> Iterator[ForeignRun]:
    run = ForeignRun(identity=source.path.stem, provider="echo")
    conversation = ForeignConversation()
    for line in source.lines():
        note = as_dict(line.value)
        conversation.add({"role": "user", "content": note.get("asked")})
        response = {"content": note.get("heard"), "usage": note.get("tokens")}
        run.events.append(Call(time="", conversation=conversation, length=len(conversation), response=response))
        conversation.answer(response)
    yield run


def _are_notes(source: Source) -> bool:
    return bool(source.first_lines) and all(_is_note(line.value) for line in source.first_lines)


NOTES = Format(
    name="echo-notes",
    reader=FormatReader(recognizes=_are_notes, read=_read_notes, counting=CACHE_APART),
)


@view
def to_pairs(left_out: LeftOut, trajectory: Trajectory) -> Iterator[dict[str, Payload]]:
    """Yield a row for each answer."""
    for one in trajectory.llm_interactions:
        left_out.add("tool calls", len(one.response.tool_calls))
        if one.response.content and one.input_messages:
            yield {"question": text_of(one.input_messages[-1]), "answer": one.response.content}


PAIRS = Format(name="echo-pairs", writer=FormatWriter(kind="rows", view=to_pairs))


def register() -> None:
    """Register the dialect and both formats until the process ends."""
    DIALECTS.register(ECHO)
    register_format(NOTES)
    register_format(PAIRS)


@contextmanager
def registered() -> Iterator[None]:
    """Register the dialect and both formats during a block."""
    register()
    try:
        yield
    finally:
        DIALECTS.unregister(ECHO.name)
        unregister_format(NOTES)
        unregister_format(PAIRS)
