"""A background thread that writes a document lets other threads run between the records and between the calls."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chat_calls import asked
from tests.journals import journal_of
from trace_recorder.background_work import current_yield
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.values.messages import Payload

Records = list[tuple[str, Payload]]
REQUEST = {"attempt": 0, "api": "openai-chat", "provider": "p", "model": "m"}
PIECE = "a" * 8 * 1024


def calls(count: int) -> Records:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": PIECE}}]}
    records: Records = []
    for number in range(count):
        of = {"interaction_id": f"llm_{number}", "attempt": 0}
        records.append(("llm_request", REQUEST | of | {"body": asked(PIECE)}))
        records.append(("llm_response", of | {"status": 200, "headers": {}, "complete": True, "body": body}))
    return records


def parts_of_a_stream(count: int) -> Records:
    chunk = {"choices": [{"index": 0, "delta": {"content": PIECE}}]}
    part = zlib.compress(f"data: {json.dumps(chunk)}\n\n".encode())
    of = {"interaction_id": "llm_1", "attempt": 0}
    data = of | {"status": 200, "zlib": base64.b64encode(part).decode()}
    return [("llm_request", REQUEST | of | {"body": asked("x")}), *[("llm_stream", data)] * count]


@pytest.mark.parametrize("records", [calls, parts_of_a_stream])
def test_a_long_run_is_written_in_pieces(records: Callable[[int], Records], tmp_path: Path) -> None:
    """For each four calls or parts, the thread yields at least once."""

    def yields(count: int) -> int:
        journal = tmp_path / f"{count}.jsonl"
        journal.write_bytes(journal_of(*records(count)))
        yielded: list[None] = []
        token = current_yield.set(lambda: yielded.append(None))
        try:
            WholeDocument(journal, "inline").write(journal.with_suffix(".json"))
        finally:
            current_yield.reset(token)
        return len(yielded)

    assert yields(80) - yields(40) >= 10
