"""A secret in the deltas of a realtime response is masked, although each event has an id of its own."""

from __future__ import annotations

from pathlib import Path

from tests.websocket_sessions import Session, typed

KEY = "sk-proj-0123456789abcdefghijABCDEFGHIJ"


def test_a_secret_in_several_deltas_is_masked(tmp_path: Path) -> None:
    session = Session(tmp_path / "run.json")
    session.receive({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}})
    place = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
    for begin in range(0, len(KEY), 5):
        delta = {"event_id": f"event_C{begin}xYz", **place, "delta": KEY[begin : begin + 5]}
        session.receive({"type": "response.output_text.delta", **delta})
    done = {"id": "resp_1", "status": "completed", "output": [typed("assistant", KEY, id="item_1")]}
    session.receive({"type": "response.done", "response": done})

    [call] = session.end().llm_interactions

    assert call.response.content == "[REDACTED:openai-key]"
    assert call.raw_stream is not None
    deltas = [line.partition('"delta": "')[2] for line in call.raw_stream.splitlines() if '"delta": "' in line]
    assert "".join(delta.removesuffix('"}') for delta in deltas) == "[REDACTED:openai-key]"
