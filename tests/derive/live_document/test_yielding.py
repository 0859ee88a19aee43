"""A background thread that writes a document lets other threads run while it processes a long text, wherever the text
is.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chat_calls import asked
from tests.journals import journal_of
from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, current_yield
from trace_recorder.derive.live_document.whole_document import WholeDocument
from trace_recorder.values.messages import Payload

Records = list[tuple[str, Payload]]
REQUEST = {"interaction_id": "llm_1", "attempt": 0, "api": "openai-chat", "provider": "p", "model": "m"}
ITEMS = {"body": {"model": "m", "messages": None}, "items": {"messages": [[0, 0]]}, "check": {}}
STEPS = 40
LENGTH = STEPS * MAX_UNINTERRUPTED_CHARS


def in_a_message(length: int) -> Records:
    return [("item", {"n": 0, "value": asked("a" * length)["messages"][0]}), ("llm_request", REQUEST | ITEMS)]


def in_a_response(length: int) -> Records:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "a" * length}}]}
    ended = {"interaction_id": "llm_1", "attempt": 0, "status": 200, "complete": True, "body": body}
    return [*in_a_message(1), ("llm_response", ended)]


def in_short_parts_of_a_stream(length: int) -> Records:
    chunk = {"choices": [{"index": 0, "delta": {"content": "a" * (length // STEPS // 2)}}]}
    part = zlib.compress(f"data: {json.dumps(chunk)}\n\n".encode())
    data = {"interaction_id": "llm_1", "attempt": 0, "status": 200, "zlib": base64.b64encode(part).decode()}
    return [*in_a_message(1), *[("llm_stream", data)] * 2 * STEPS]


def in_short_parts_of_a_response(length: int) -> Records:
    text = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a" * length}}]})
    size = len(text) // STEPS + 1
    parts = [zlib.compress(text[at : at + size].encode()) for at in range(0, len(text), size)]
    data = {"interaction_id": "llm_1", "attempt": 0, "status": 200, "plain": True}
    ended = {"interaction_id": "llm_1", "attempt": 0, "status": 200, "complete": True, "parts": len(parts)}
    written = [("llm_stream", data | {"zlib": base64.b64encode(part).decode()}) for part in parts]
    return [*in_a_message(1), ("llm_request", REQUEST | ITEMS), *written, ("llm_response", ended)]


def in_the_metadata(length: int) -> Records:
    return [("start", {"metadata": {"a": "a" * length}})]


@pytest.mark.parametrize(
    ("records", "times"),
    [
        (in_a_message, 1),
        (in_a_response, 2),
        (in_short_parts_of_a_stream, 3),
        (in_short_parts_of_a_response, 4),
        (in_the_metadata, 1),
    ],
)
def test_a_long_text_is_written_in_slices(records: Callable[[int], Records], times: int, tmp_path: Path) -> None:
    """For each slice of the text, the thread yields `times` times, while it reads the parts and while it writes."""

    def yields(length: int) -> int:
        journal = tmp_path / f"{length}.jsonl"
        journal.write_bytes(journal_of(*records(length)))
        yielded = []
        token = current_yield.set(lambda: yielded.append(1))
        try:
            WholeDocument(journal, "inline").write(journal.with_suffix(".json"))
        finally:
            current_yield.reset(token)
        return len(yielded)

    assert yields(LENGTH) - yields(1) > times * STEPS
