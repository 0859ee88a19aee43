"""Streams that the garbage collector ends while a call is being recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT
from tests.provider import CHAT, SILENCE, chat_chunk, plain, serving, stream
from trace_recorder import load


def test_a_stream_may_be_collected_during_recording(tmp_path: Path) -> None:
    """If the garbage collector ends a stream while another call is recorded, no thread hangs, and both calls are on
    file.
    """
    path = tmp_path / "run.json"
    answers = stream(chat_chunk("one"), SILENCE), plain(CHAT)
    with serving(*answers) as server:
        command = [sys.executable, "-m", "tests.isolation.garbage", str(path), f"{server.url}/v1"]
        subprocess.run(command, cwd=ROOT, check=True, timeout=120)

    recorded = [(call.complete, call.response and call.response.content) for call in load(path).llm_interactions]
    assert recorded == [(False, "one"), (True, "hi")]
