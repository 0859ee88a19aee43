"""Ollama's generate dialect: a prompt and its text are read like a chat."""

from __future__ import annotations

import json

from trace_recorder.dialects.ollama_generate import join_stream, read_request, read_response
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, RequestReading, Usage


def test_a_request_is_read():
    """The prompt is the user's message, with its images, after the system's message.

    All other members are parameters.
    """
    body = {"model": "m", "system": "Be brief.", "prompt": "def f(", "suffix": ")", "images": ["iVBO"], "raw": False}
    assert read_request(body) == RequestReading(
        [Message("system", "Be brief."), Message("user", "def f(", extra={"suffix": ")", "images": ["iVBO"]})],
        [],
        {"model": "m", "raw": False},
        "m",
    )


def test_empty_members_make_no_message():
    """The SDK sends empty texts and lists for missing values."""
    body = {"model": "m", "prompt": "Hi", "system": "", "suffix": "", "images": [], "context": [1, 2], "template": ""}
    reading = read_request(body)
    assert (reading.messages, reading.parameters) == (
        [Message("user", "Hi")],
        {"model": "m", "context": [1, 2], "template": ""},
    )


def test_a_request_without_a_prompt_has_no_messages():
    """A request without a prompt, which only loads a model, has no messages."""
    assert read_request({"model": "m"}) == RequestReading([], [], {"model": "m"}, "m")


def test_a_response_is_read():
    """The response is the content. The token ids of the conversation are in `extra`."""
    body = {"model": "m", "response": "Ho", "thinking": "Hm.", "done": True, "done_reason": "stop", "context": [1]}
    assert read_response({**body, "prompt_eval_count": 3, "eval_count": 4}) == LLMResponse(
        content="Ho",
        reasoning="Hm.",
        finish_reason="stop",
        usage=Usage(3, 4),
        model="m",
        choices=(Choice(0, "Ho", "Hm.", finish_reason="stop"),),
        extra={"done": True, "context": [1]},
    )


def test_a_stream_is_joined_to_the_answer():
    """Texts and thinking are joined. Of every other member the last value is used."""
    lines = [{"response": "", "thinking": "Hm."}, {"response": "H"}, {"response": "o", "done": True, "eval_count": 2}]
    assert join_stream("\n".join(map(json.dumps, lines))) == JoinedStream(
        {"done": True, "eval_count": 2, "response": "Ho", "thinking": "Hm."}, ended=True, events=3
    )
