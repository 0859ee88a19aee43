"""Cohere's chat dialect: its whole answers, its streams, and its requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trace_recorder.dialects import cohere_chat
from trace_recorder.dialects.endpoints import Endpoint, recognise

Payload = Any
USAGE = {"billed_units": {"input_tokens": 5, "output_tokens": 2}, "tokens": {"input_tokens": 60, "output_tokens": 9}}
CALL = {"id": "bash_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
TOLD = {
    "id": "c1",
    "message": {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "I greet."}, {"type": "text", "text": "Grüße"}],
    },
    "finish_reason": "COMPLETE",
    "usage": {**USAGE, "cached_tokens": 16},
}
CALLED = {
    "id": "c2",
    "message": {"role": "assistant", "tool_plan": "I list the files.", "tool_calls": [CALL]},
    "finish_reason": "TOOL_CALL",
    "usage": USAGE,
}


def sent(*told: Payload) -> str:
    """Return the text of a stream with these events."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)


def event(name: str, index: int | None = None, **message: Payload) -> Payload:
    """Return an event with a part of the message."""
    place = {} if index is None else {"index": index}
    return {"type": name, **place, **({"delta": {"message": message}} if message else {})}


def end(answer: Payload) -> Payload:
    """Return the last event of an answer."""
    return {"type": "message-end", "delta": {name: answer[name] for name in ("finish_reason", "usage")}}


TOLD_STREAM = (
    {"id": "c1", **event("message-start", role="assistant", content=[], tool_plan="", tool_calls=[], citations=[])},
    event("content-start", 0, content={"type": "thinking", "thinking": ""}),
    event("content-delta", 0, content={"thinking": "I gr"}),
    event("content-delta", 0, content={"thinking": "eet."}),
    event("content-end", 0),
    event("content-start", 1, content={"type": "text", "text": ""}),
    event("content-delta", 1, content={"text": "Grü"}),
    event("content-delta", 1, content={"text": "ße"}),
    event("content-end", 1),
    end(TOLD),
)


def called_stream(index: int | None) -> tuple[Payload, ...]:
    """Return the events of the answer with a tool call. Older servers send no index for calls."""
    return (
        {"id": "c2", **event("message-start", role="assistant")},
        event("tool-plan-delta", tool_plan="I list"),
        event("tool-plan-delta", tool_plan=" the files."),
        event("tool-call-start", index, tool_calls={**CALL, "function": {"name": "bash", "arguments": ""}}),
        event("tool-call-delta", index, tool_calls={"function": {"arguments": '{"command":'}}),
        event("tool-call-delta", index, tool_calls={"function": {"arguments": ' "ls"}'}}),
        event("tool-call-end", index),
        end(CALLED),
    )


@pytest.mark.parametrize(
    ("answer", "stream"),
    [(TOLD, TOLD_STREAM), (CALLED, called_stream(0)), (CALLED, called_stream(None))],
    ids=["text", "call", "call without a number"],
)
def test_a_stream_gives_the_answer(answer: Payload, stream: tuple[Payload, ...]) -> None:
    """The events give the same body as the answer without streaming. Without the last event the body is incomplete."""
    joined = cohere_chat.join_stream(sent(*stream))
    begun = cohere_chat.join_stream(sent(*stream[:-1]))

    assert (joined.body, joined.ended, joined.events) == (answer, True, len(stream))
    assert (begun.body["message"], begun.ended) == (answer["message"], False)


def test_an_answer_is_read() -> None:
    """An answer is read with its text, thoughts, counts and finish reason."""
    read = cohere_chat.read_response(TOLD)

    assert (read.content, read.reasoning, read.finish_reason, read.id) == ("Grüße", "I greet.", "COMPLETE", "c1")
    assert (read.usage.input_tokens, read.usage.output_tokens, read.usage.cache_read_input_tokens) == (60, 9, 16)
    assert read.usage.extra == {"billed_units": USAGE["billed_units"]}


def test_an_answer_with_a_tool_call_is_read() -> None:
    """In an answer with a tool call, the plan is the reasoning."""
    read = cohere_chat.read_response(CALLED)

    assert (read.content, read.reasoning) == (None, "I list the files.")
    assert [(tool_call.call_id, tool_call.name, tool_call.arguments) for tool_call in read.tool_calls] == [
        ("bash_1", "bash", {"command": "ls"})
    ]


def test_an_error_is_kept() -> None:
    """The body of an error, whose message is a text, is kept in the answer's `extra`."""
    body = {"id": "e1", "message": "invalid api token"}

    assert cohere_chat.read_response(body).extra == body


def test_an_earlier_answer_in_a_request_is_read_the_same() -> None:
    """The model's earlier answer is read from the request as it was read when it arrived."""
    document = {"type": "document", "document": {"data": "a.txt"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Which files are there?"},
        CALLED["message"],
        {"role": "tool", "tool_call_id": "bash_1", "content": [document]},
    ]
    tool = {
        "type": "function",
        "function": {"name": "bash", "description": "Run it.", "parameters": {"type": "object"}},
    }
    read = cohere_chat.read_request({"model": "command-a", "messages": messages, "tools": [tool], "k": 3})
    _, _, answer, result = read.messages

    assert [message.role for message in read.messages] == ["system", "user", "assistant", "tool"]
    assert (answer.reasoning, answer.tool_calls) == ("I list the files.", cohere_chat.read_response(CALLED).tool_calls)
    assert (result.call_id, result.content) == ("bash_1", [document])
    assert ([tool.name for tool in read.tools], read.model, read.parameters) == (
        ["bash"],
        "command-a",
        {"k": 3, "model": "command-a"},
    )


@pytest.mark.parametrize(
    "broken", [None, [], {"message": {"content": 3, "tool_calls": {}}}, {"usage": [], "message": {}}]
)
def test_malformed_values_raise_nothing(broken: Payload) -> None:
    """Readers ignore values of the wrong type."""
    event_of_it = json.dumps({"type": "content-delta", "index": "x", "delta": broken})

    assert cohere_chat.read_response(broken).content is None
    assert cohere_chat.read_request(broken).messages == []
    assert cohere_chat.join_stream(f"data: {event_of_it}\n\n").ended is False


@pytest.mark.parametrize(
    ("host", "path", "api", "provider"),
    [
        ("api.cohere.com", "/v2/chat", "cohere-chat", "cohere"),
        ("127.0.0.1", "/v2/chat", "cohere-chat", "cohere"),
        ("api.mistral.ai", "/v1/agents/completions", "openai-chat", "mistral"),
        ("api.mistral.ai", "/v1/fim/completions", "openai-completions", "mistral"),
    ],
)
def test_addresses_of_cohere_and_mistral_are_recognised(host: str, path: str, api: str, provider: str) -> None:
    """The dialect has its own URLs, and Mistral has URLs of its own beside OpenAI's."""
    assert recognise("POST", host, path).call == Endpoint(api, provider, None, streams=False)
