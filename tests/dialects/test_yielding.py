"""While a background thread joins a long stream, it yields to other threads between any two chunks."""

from __future__ import annotations

import json
import sys
from types import FrameType

import pytest

from trace_recorder.background_work import current_yield
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.values.messages import Payload


def event(data: Payload) -> str:
    return f"data: {json.dumps(data)}\n\n"


CHUNKS = {
    "openai-chat": event({"choices": [{"index": 0, "delta": {"content": "word "}}]}),
    "openai-completions": event({"choices": [{"index": 0, "text": "word "}]}),
    "openai-responses": event({"type": "response.output_text.delta", "output_index": 0, "delta": "word "}),
    "anthropic-messages": event(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
    ),
    "google-generate": event({"candidates": [{"content": {"role": "model", "parts": [{"text": "word "}]}}]}),
    "google-interactions": event(
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "word "}}
    ),
    "ollama-chat": '{"message": {"role": "assistant", "content": "word "}, "done": false}\n',
    "ollama-generate": '{"response": "word ", "done": false}\n',
}


def longest_between_yields(api: str, text: str) -> int:
    """Return the largest number of function calls between two yields, before the first yield and after the last."""
    calls = [0]

    def count(frame: FrameType, what: str, _: object) -> None:
        if (
            what == "call"
            and "trace_recorder" in frame.f_code.co_filename
            and frame.f_code is not yield_to_others.__code__
        ):
            calls[-1] += 1

    def yield_to_others() -> None:
        calls.append(0)

    token = current_yield.set(yield_to_others)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        join_stream(api, text.encode())
    finally:
        sys.setprofile(before)
        current_yield.reset(token)
    assert len(calls) > 1
    return max(calls)


@pytest.mark.parametrize("api", CHUNKS)
def test_at_most_one_chunk_is_joined_between_two_yields(api: str) -> None:
    """The work between two yields does not grow with the number of chunks."""
    join_stream(api, CHUNKS[api].encode())  # imports and caches

    assert longest_between_yields(api, CHUNKS[api] * 400) <= longest_between_yields(api, CHUNKS[api] * 40)
