"""The GenAI semantic conventions in the form of events: of a span, or log records that belong to one.

Source: the conventions up to 1.36 (`gen_ai.user.message`, `gen_ai.choice`, …), `gen_ai.content.prompt` before them, and
`gen_ai.client.inference.operation.details` since, whose attributes are those of the other form. pydantic-ai up to
version 1 has the events as a JSON list in the attribute `events`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans.messages import read_messages
from trace_recorder.imports.foreign.spans.payloads import of_messages, read_output
from trace_recorder.imports.foreign.spans.reading import Reading
from trace_recorder.imports.foreign.spans.span import Span, SpanEvent, parsed

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"
_NOT_SAID = ("gen_ai.", "event.name", "logfire.")


def read(span: Span) -> Reading | None:
    """Read the messages among a span's events."""
    said = [*_said(span)]
    older = _older(span)
    messages = read_messages([_message(name, body) for name, body in said if name in _ROLES])
    choices = [body for name, body in said if name == _CHOICE]
    if messages is None and not choices:
        return older
    if not choices:
        return Reading(kind="call", messages=messages)
    answer = read_messages(_message("gen_ai.assistant.message", _answer(choices[0])))
    reason = as_text(choices[0].get("finish_reason"))
    response = of_messages(answer) if answer else None
    return Reading(kind="call", messages=messages, response=response, finish_reason=reason)


def _said(span: Span) -> Iterator[tuple[str, Members]]:
    """Yield the names and bodies of the events that are messages, in their order."""
    for position, event in enumerate(span.events):
        if event.name in _ROLES or event.name == _CHOICE:
            yield event.name, _body(span.take_event(position))
    listed = as_list(parsed(span.attributes.get("events")))
    if any(isinstance(as_dict(one).get("event.name"), str) for one in listed):
        span.take("events")
        yield from ((one["event.name"], one) for one in map(as_dict, listed) if isinstance(one.get("event.name"), str))


def _body(event: SpanEvent) -> Members:
    """Return what an event says: its body, or its attributes, which may have it as a JSON text."""
    body = as_dict(parsed(event.body))
    inside = as_dict(parsed(event.attributes.get("gen_ai.event.content")))
    beside = {name: parsed(value) for name, value in event.attributes.items() if not name.startswith(_NOT_SAID)}
    return body or inside or beside


def _message(name: str, body: Members) -> Members:
    """Return a body as OpenAI's message, which it is but for the place of the role and of the call's id."""
    message = {member: value for member, value in body.items() if not member.startswith(_NOT_SAID)}
    message["role"] = as_text(message.get("role")) or _ROLES[name]
    if message["role"] == "tool" and "id" in message:
        message["tool_call_id"] = message.pop("id")
    message.setdefault("content", None)
    for member in ("index", "finish_reason"):
        message.pop(member, None)
    return message


def _answer(choice: Members) -> Members:
    message = parsed(choice.get("message"))
    return {**message, "role": "assistant"} if isinstance(message, dict) else {**choice, "role": "assistant"}


def _older(span: Span) -> Reading | None:
    """Read `gen_ai.content.prompt` and `gen_ai.content.completion`."""
    reading = Reading()
    for position, event in enumerate(span.events):
        prompt, completion = event.attributes.get("gen_ai.prompt"), event.attributes.get("gen_ai.completion")
        if event.name == "gen_ai.content.prompt" and prompt is not None:
            reading.messages = read_messages(prompt)
            span.take_event(position)
        elif event.name == "gen_ai.content.completion" and completion is not None:
            reading.response = read_output(completion)
            span.take_event(position)
    return reading if reading.messages or reading.response else None
