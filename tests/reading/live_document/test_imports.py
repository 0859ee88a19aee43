"""What is imported for documents: nothing for the start of a run, and the readers of calls with the first client."""

from __future__ import annotations

from pathlib import Path

from tests.processes import python
from tests.provider import CHAT, plain, serving


def test_a_wrapped_client_has_imported_the_readers_of_calls(tmp_path: Path) -> None:
    """The document's thread and the end of the process import no module for a captured call."""
    code = """
        import sys
        import httpx
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[2], strict=True)
        with recorder.wrap(httpx.Client(base_url=sys.argv[1])) as client:
            known = {name for name in sys.modules if name.startswith("trace_recorder.")}
            client.post("/v1/chat/completions", json={"model": "m", "messages": []})
            recorder.finalize()
        print({name for name in sys.modules if name.startswith("trace_recorder.reading.")} - known)
    """
    with serving(plain(CHAT)) as server:
        ended = python(code, server.url, tmp_path / "run.json")

    assert (ended.stdout, ended.stderr) == ("set()\n", "")


def test_the_first_document_needs_no_readers_of_calls(tmp_path: Path) -> None:
    """The document is complete when `start` returns, and no reader of calls and no dialect was imported for it."""
    code = """
        import json, pathlib, sys
        from trace_recorder import TrajectoryRecorder
        recorder = TrajectoryRecorder(sys.argv[1], task="count", strict=True)
        recorder.start()
        print(json.loads(pathlib.Path(sys.argv[1]).read_text())["task"])
        for name in ("reading.fold", "reading.call_facts", "dialects.openai_chat", "values.history_deltas"):
            assert f"trace_recorder.{name}" not in sys.modules, name
        recorder.finalize()
    """
    ended = python(code, tmp_path / "run.json")

    assert (ended.stdout, ended.stderr) == ("count\n", "")
