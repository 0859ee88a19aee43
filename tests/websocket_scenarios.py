"""Scripted sessions of websockets, each with the program of the client that talks to it.

A program is a generator. It yields an event to send, or None to receive one, which it then gets. So a sync and an async
client run the same program. A program ends by its return, and its connection is closed then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from tests.websocket_provider import Script, Session

Event = dict[str, Any]
Program = Callable[[], Generator[Event | None, Any, None]]
LAST = ("response.completed", "response.incomplete", "response.failed", "response.done", "error")
SPEECH = base64.b64encode(bytes(range(256)) * 4).decode()


@dataclass(frozen=True)
class Scenario:
    """A session: the API ("responses" or "realtime"), what the server does, and what the client does."""

    api: str
    script: Script
    program: Program


def create(text: object, **members: Any) -> Event:
    """Return a request of the Responses API."""
    return {"type": "response.create", "model": "gpt-5", "input": text, **members}


def until_last(*events: Event, ends: int = 1) -> Program:
    """Return a program that sends events, and receives until so many responses have ended."""

    def program() -> Iterator[Any]:
        yield from events
        left = ends
        while left:
            received = yield None
            left -= received.type in LAST

    return program  # type: ignore[return-value]


def response(identity: str, status: str = "completed", output: object = ()) -> Event:
    """Return the object of a response."""
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    of = {"id": identity, "object": "response", "model": "gpt-5", "status": status, "output": [*output]}  # type: ignore[misc]
    return of | ({} if status == "in_progress" else {"usage": usage})


def message(text: str) -> Event:
    """Return the item of an answer."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def answer(text: str, identity: str = "resp_1", ended: str = "completed", **members: Any) -> list[Event]:
    """Return the events of an answer of the Responses API, a delta for each letter."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": [], **members}
    return [
        {"type": "response.created", "response": response(identity, "in_progress"), "sequence_number": 0, **members},
        *({"type": "response.output_text.delta", "delta": letter, "sequence_number": 1, **place} for letter in text),
        {
            "type": f"response.{ended}",
            "response": response(identity, ended, [message(text)]),
            "sequence_number": 2,
            **members,
        },
    ]


def _tools(session: Session) -> None:
    session.receive()
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
    session.send(
        {"type": "response.created", "response": response("resp_1", "in_progress"), "sequence_number": 0},
        {"type": "response.output_item.done", "item": call, "output_index": 0, "sequence_number": 1},
        {"type": "response.completed", "response": response("resp_1", output=[call]), "sequence_number": 2},
    )
    session.receive()
    session.send(*answer("two", "resp_2"))


def _use_tools() -> Iterator[Any]:
    yield from until_last(create("1 + 1?", tools=[{"type": "function", "name": "add", "parameters": {}}]))()
    result = {"type": "function_call_output", "call_id": "call_1", "output": "2"}
    yield from until_last(create([result], previous_response_id="resp_1"))()


def _lanes(session: Session) -> None:
    session.receive()
    session.receive()
    answers = [answer("left", "resp_1", stream_id="a"), answer("righ", "resp_2", stream_id="b")]
    for events in zip(*answers, strict=True):
        session.send(*events)


def _steered(session: Session) -> None:
    session.receive()
    first = answer("no", ended="incomplete")
    session.send(*first[:2])
    session.receive()
    session.send(*first[2:], *answer("yes", "resp_2"))


def _steer() -> Iterator[Any]:
    yield create("go left")
    yield None
    yield {"type": "response.steer", "previous_response_id": "resp_1", "input": "go right"}
    yield from until_last(ends=2)()


def _refused(session: Session) -> None:
    session.receive()
    error = {"type": "invalid_request_error", "code": "bad", "message": "no such model", "param": "model"}
    session.send({"type": "error", "status": 400, "error": error})
    session.receive()
    session.send(*answer("yes"))


def _ask_again() -> Iterator[Any]:
    yield from until_last(create("hello", model="none"))()
    yield from until_last(create("hello"))()


def _realtime(session: Session, identity: str = "resp_1") -> None:
    session.send({"type": "session.created", "event_id": "e1", "session": {"type": "realtime", "model": "gpt-rt"}})
    for _ in range(3):
        session.receive()
    of = {"event_id": "e3", "response_id": identity, "item_id": "item_2", "output_index": 0, "content_index": 0}
    session.send(
        {"type": "session.updated", "event_id": "e2", "session": {"type": "realtime", "model": "gpt-rt"}},
        {"type": "response.created", "event_id": "e4", "response": _spoken(identity, "in_progress")},
        *({"type": "response.output_text.delta", "delta": letter, **of} for letter in "hello"),
        {"type": "response.done", "event_id": "e5", "response": _spoken(identity, "completed")},
        {"type": "rate_limits.updated", "event_id": "e6", "rate_limits": []},
    )


def _spoken(identity: str, status: str) -> Event:
    return {"object": "realtime.response", "id": identity, "status": status, "output": [], "modalities": ["text"]}


ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}


def _speak(session: Session) -> None:
    session.send({"type": "session.created", "event_id": "e1", "session": {"type": "realtime"}})
    for _ in range(3):
        session.receive()
    of = {"event_id": "e3", "response_id": "resp_1", "item_id": "item_2", "output_index": 0, "content_index": 0}
    session.send(
        {"type": "input_audio_buffer.speech_started", "event_id": "e2", "audio_start_ms": 0, "item_id": "item_1"},
        {"type": "input_audio_buffer.committed", "event_id": "e2", "item_id": "item_1", "previous_item_id": None},
        {"type": "response.created", "event_id": "e4", "response": _spoken("resp_1", "in_progress")},
        {"type": "response.output_audio.delta", "delta": SPEECH, **of},
        {"type": "response.output_audio_transcript.delta", "delta": "hel", **of},
    )
    session.receive()
    session.receive()
    session.send(
        {"type": "response.output_audio.delta", "delta": SPEECH[:64], **of},
        {"type": "response.done", "event_id": "e5", "response": _spoken("resp_1", "cancelled")},
        {
            "type": "conversation.item.truncated",
            "event_id": "e6",
            "item_id": "item_2",
            "content_index": 0,
            "audio_end_ms": 1,
        },
    )


def _interrupt() -> Iterator[Any]:
    for _ in range(3):
        yield {"type": "input_audio_buffer.append", "audio": SPEECH}
    for _ in range(6):
        yield None
    yield {"type": "response.cancel"}
    yield {"type": "conversation.item.truncate", "item_id": "item_2", "content_index": 0, "audio_end_ms": 1}
    for _ in range(3):
        yield None


def _cut(session: Session) -> None:
    session.receive()
    session.send(*answer("hello")[:3])
    session.receive()  # the client has received the events
    session.reset()


def _run_into_cut() -> Iterator[Any]:
    yield create("hello")
    for _ in range(3):
        yield None
    yield {"type": "response.steer", "previous_response_id": "resp_1", "input": "x"}
    yield None


def _closed(session: Session) -> None:
    session.receive()
    session.send(*answer("hello")[:3])
    session.connection.close(1011, "too busy")


def _fragmented(session: Session) -> None:
    session.receive()
    for event in answer("hello"):
        session.send_in_fragments(event)
    session.connection.ping()


def _never() -> Iterator[Any]:
    yield create("hello")


def _silent(session: Session) -> None:
    session.receive()
    session.receive()


SCENARIOS = {
    "text": Scenario("responses", lambda session: _answer(session, answer("hello")), until_last(create("hi"))),
    "tools": Scenario("responses", _tools, _use_tools),  # type: ignore[arg-type]
    "lanes": Scenario("responses", _lanes, until_last(create("a", stream_id="a"), create("b", stream_id="b"), ends=2)),
    "steering": Scenario("responses", _steered, _steer),  # type: ignore[arg-type]
    "error": Scenario("responses", _refused, _ask_again),  # type: ignore[arg-type]
    "large": Scenario(
        "responses", lambda session: _answer(session, answer("hello")), until_last(create("a word " * 30_000))
    ),
    "realtime": Scenario(
        "realtime",
        _realtime,
        until_last(
            {"type": "session.update", "session": {"type": "realtime", "instructions": "be brief"}},
            {"type": "conversation.item.create", "item": ITEM},
            {"type": "response.create", "event_id": "mine"},
        ),
    ),
    "interruption": Scenario("realtime", _speak, _interrupt),  # type: ignore[arg-type]
    "cut": Scenario("responses", _cut, _run_into_cut),  # type: ignore[arg-type]
    "closed": Scenario("responses", _closed, until_last(create("hello"))),
    "fragments": Scenario("responses", _fragmented, until_last(create("hello"))),
    "unanswered": Scenario("responses", _silent, _never),  # type: ignore[arg-type]
}


def _answer(session: Session, events: list[Event]) -> None:
    session.receive()
    session.send(*events)
