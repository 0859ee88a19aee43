"""The Realtime dialect: answers with speech and calls, statuses, usage by modality, streams that are cut off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trace_recorder.dialects.dialect import DIALECTS, join_stream
from trace_recorder.storage.websocket_frames import as_event, media_note
from trace_recorder.values.messages import JoinedStream, Message, RequestReading, ToolCall, Usage

DIALECT = DIALECTS["openai-realtime"]
NOTE = media_note("QUJD")
SPOKEN = {"type": "output_audio", "transcript": "Hello there."}
SAID: dict[str, Any] = {"id": "item_1", "type": "message", "role": "assistant", "content": [SPOKEN]}
CALL = {"id": "item_2", "type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Ulm"}'}
USAGE = {
    "total_tokens": 253,
    "input_tokens": 132,
    "output_tokens": 121,
    "input_token_details": {
        "text_tokens": 119,
        "audio_tokens": 13,
        "image_tokens": 0,
        "cached_tokens": 64,
        "cached_tokens_details": {"text_tokens": 60, "audio_tokens": 4, "image_tokens": 0},
    },
    "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
}
DONE: dict[str, Any] = {
    "object": "realtime.response",
    "id": "resp_1",
    "status": "completed",
    "status_details": None,
    "output": [SAID, CALL],
    "usage": USAGE,
}
EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**SAID, "content": []}},
    {
        "type": "response.content_part.added",
        "output_index": 0,
        "content_index": 0,
        "part": {"type": "audio", "transcript": ""},
    },
    {
        "type": "response.output_audio_transcript.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hello ",
    },
    {"type": "response.output_audio.delta", "output_index": 0, "content_index": 0, "delta": NOTE},
    {"type": "response.output_audio_transcript.delta", "output_index": 0, "content_index": 0, "delta": "there."},
    {"type": "response.output_audio.delta", "output_index": 0, "content_index": 0, "delta": NOTE},
    {"type": "response.output_item.done", "output_index": 0, "item": SAID},
    {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"city"'},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": ': "Ulm"}'},
    {"type": "response.done", "response": DONE},
]
TEXTS = [b"".join(as_event(json.dumps(event).encode()) for event in EVENTS[:end]) for end in range(len(EVENTS) + 1)]


def joined(text: bytes) -> JoinedStream:
    """Return the assembled stream."""
    stream = join_stream("openai-realtime", text)
    assert stream is not None
    return stream


def test_a_response_is_assembled_with_its_transcript_and_the_size_of_its_audio() -> None:
    """The last event has the response. The part with the speech states how much audio the stream had."""
    stream = joined(TEXTS[-1])

    heard = {**SAID, "content": [{**SPOKEN, "audio": "[media: 6 bytes in 2 pieces]"}]}
    assert stream == JoinedStream({**DONE, "output": [heard, CALL]}, ended=True, events=len(EVENTS))


def test_an_answer_has_its_transcript_its_calls_and_its_usage_by_modality() -> None:
    """Cached tokens are a part of the input tokens. The counts of each modality stay under the provider's names."""
    response = DIALECT.read_response(joined(TEXTS[-1]).body)

    usage = Usage(
        132,
        121,
        cache_read_input_tokens=64,
        extra={
            "total_tokens": 253,
            "input_token_details": {
                name: value for name, value in USAGE["input_token_details"].items() if name != "cached_tokens"
            },
            "output_token_details": USAGE["output_token_details"],
        },
    )
    assert (response.content, response.finish_reason, response.id) == ("Hello there.", "completed", "resp_1")
    assert response.tool_calls == (ToolCall("call_1", "weather", {"city": "Ulm"}, extra={"id": "item_2"}),)
    assert response.usage == usage


@pytest.mark.parametrize(
    ("status", "details", "reason"),
    [
        ("cancelled", {"type": "cancelled", "reason": "turn_detected"}, "turn_detected"),
        ("incomplete", {"type": "incomplete", "reason": "max_output_tokens"}, "max_output_tokens"),
        ("cancelled", None, "cancelled"),
        ("failed", {"type": "failed", "error": {"type": "server_error"}}, "failed"),
        ("in_progress", None, None),
    ],
)
def test_the_finish_reason_is_the_reason_of_the_status(status: str, details: Any, reason: str | None) -> None:
    body = {**DONE, "status": status, "status_details": details}

    assert DIALECT.read_response(body).finish_reason == reason


def test_a_failed_response_has_its_error() -> None:
    """The error is in the details of the status."""
    error = {"type": "server_error", "code": "overloaded", "message": "later"}
    done = {**DONE, "status": "failed", "output": [], "status_details": {"type": "failed", "error": error}}

    stream = joined(as_event(json.dumps({"type": "response.done", "response": done}).encode()))

    assert (stream.error, stream.ended) == (error, True)


def test_a_response_that_is_cut_off_has_what_came() -> None:
    """At each byte, the assembled response has the beginning of the transcript and of the arguments."""
    for end in range(len(TEXTS[-1])):
        stream = joined(TEXTS[-1][:end])

        response = DIALECT.read_response(stream.body)
        assert stream.ended is False or len(TEXTS[-1]) - end <= 2
        assert "Hello there.".startswith(response.content or "")
        assert len(response.tool_calls) <= 1


def test_a_request_states_what_differs_from_the_session() -> None:
    """The members inside `response` are read. An event of the server has no request."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    event = {
        "type": "response.create",
        "response": {"instructions": "Be brief.", "input": [item], "tools": [tool], "conversation": "none"},
    }

    reading = DIALECT.read_request(event)

    assert reading.messages == [Message("system", "Be brief."), Message("user", "Hi")]
    assert [tool.name for tool in reading.tools] == ["weather"]
    assert (reading.parameters, reading.instructions) == ({"type": "response.create", "conversation": "none"}, 1)
    assert DIALECT.read_request({}) == RequestReading([], [], {}, None, 0)
