"""Calls over websockets in ATIF: the websockets, and what the user heard of an interrupted answer."""

from __future__ import annotations

import json
from pathlib import Path

from tests.websocket_sessions import Session, spoken
from trace_recorder import load
from trace_recorder.formats.atif.writing import to_atif


def test_websockets_and_interruptions_go_to_atif_and_back(tmp_path: Path) -> None:
    """ATIF has no members of its own for them, so they are in `extra`."""
    session = Session(tmp_path / "run.json")
    session.added(spoken("item_a", "Tell me a story."))
    session.answer(spoken("item_b", "Once upon a time", "assistant"), by_server=True)
    session.send({"type": "conversation.item.truncate", "item_id": "item_b", "content_index": 0, "audio_end_ms": 700})
    run = session.end()
    file = tmp_path / "atif.json"
    file.write_text(json.dumps(to_atif(run)), "utf-8")

    again = load(file)

    assert again.websockets == run.websockets
    assert [(call.response.content, call.response.audio_end_ms) for call in again.llm_interactions] == [
        ("Once upon a time", 700)
    ]
    assert again.metadata["atif"]["extra"].keys() == {"journal_records"}  # nothing is there twice
