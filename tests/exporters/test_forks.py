"""A process that forks while its run is sent: the child neither waits for the export nor sends a span again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.exporters.sink import sink
from trace_recorder import load

ROOT = Path(__file__).parents[2]
PROGRAM = """
import multiprocessing, os, sys
from trace_recorder import TrajectoryRecorder, otlp

path, url, way = sys.argv[1:]

def call(recorder, text):
    recorder.record_llm_interaction([{"role": "user", "content": text}], {"content": "a"}, "openai", text)

def child():
    call(recorder, "child")
    recorder.finalize(success=True)

recorder = TrajectoryRecorder(path, exporters=[otlp(url, flush_seconds=20)])
recorder.start()
call(recorder, "before")
for number in range(3):
    if way == "fork":
        pid = os.fork()
        if pid == 0:
            child()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    else:
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
call(recorder, "after")
recorder.finalize(success=True)
"""


@pytest.mark.parametrize("way", ["fork", "multiprocessing"])
def test_a_forked_child_neither_hangs_nor_sends_twice(tmp_path: Path, way: str) -> None:
    """Parent and children are recorded. The parent's spans arrive once, and each child's run has its own."""
    with sink() as server:
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "run.json"), server.url, way]
        subprocess.run(command, cwd=ROOT, check=True, timeout=100)

        sent = [span.span_id for span in server.spans()]
        assert len(sent) == len({*sent})
        of_parent = load(tmp_path / "run.json").trajectory_id
        assert sorted(span.name for span in server.spans() if span.trace_id.hex() == of_parent) == [
            "chat after",
            "chat before",
            "invoke_agent",
        ]
        children = sorted(path for path in tmp_path.glob("*.json") if path.name != "run.json")
        assert [[call.model for call in load(path).llm_interactions] for path in children] == [["child"]] * 3
        of_children = {span.trace_id.hex() for span in server.spans()} - {of_parent}
        assert of_children == {load(path).trajectory_id for path in children}
