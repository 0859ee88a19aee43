"""The OpenAI completions dialect: prompts are the user's messages, and texts are the content."""

from __future__ import annotations

import pytest

from trace_recorder.dialects import openai_completions
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, RequestReading, Usage

TWO_PIECES = """\
data: {"id":"x","object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":null}]}

data: {"id":"x","object":"text_completion","choices":[{"index":0,"text":"b","finish_reason":"stop"}]}

data: [DONE]

"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"model": "m", "prompt": "Once"}, RequestReading([Message("user", "Once")], [], {"model": "m"}, "m")),
        ({"prompt": ["a", "b"], "n": 2}, RequestReading([Message("user", "a"), Message("user", "b")], [], {"n": 2})),
        ({"prompt": [1, 2]}, RequestReading(parameters={"prompt": [1, 2]})),
        ({"prompt": []}, RequestReading(parameters={"prompt": []})),
        ({"variables": {"city": "Oslo"}}, RequestReading(parameters={"variables": {"city": "Oslo"}})),
        (None, RequestReading()),
    ],
)
def test_a_request_is_read(body, expected):
    """Texts of a prompt are the user's messages. Token ids and stored prompts stay parameters."""
    assert openai_completions.read_request(body) == expected


def test_a_response_is_read():
    """Each text is a choice's content, with its log-probabilities beside it."""
    body = {
        "id": "cmpl-1",
        "model": "m",
        "choices": [
            {"index": 0, "text": "a", "finish_reason": "length", "logprobs": {"tokens": ["a"]}},
            {"index": 1, "text": "b", "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    choices = (
        Choice(0, "a", None, (), "length", extra={"logprobs": {"tokens": ["a"]}}),
        Choice(1, "b", None, (), "stop"),
    )
    assert openai_completions.read_response(body) == LLMResponse(
        "a",
        reasoning=None,
        tool_calls=(),
        finish_reason="length",
        usage=Usage(1, 2),
        model="m",
        id="cmpl-1",
        choices=choices,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            TWO_PIECES,
            JoinedStream(
                {
                    "id": "x",
                    "object": "text_completion",
                    "choices": [{"index": 0, "text": "ab", "finish_reason": "stop"}],
                },
                ended=True,
                events=3,
            ),
        ),
        (
            'data: {"value":"a"}\n\ndata: {"value":"b"}\n\n',
            JoinedStream({"choices": [{"index": 0, "text": "ab"}]}, ended=None, events=2),
        ),
    ],
)
def test_a_stream_is_joined(text, expected):
    """The pieces of a text are joined, even if an event is only a JSON value."""
    assert openai_completions.join_stream(text) == expected
