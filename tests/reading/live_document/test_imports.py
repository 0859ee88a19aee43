"""What is imported for documents: nothing for the start of a run, and the readers of calls by the document's thread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import python
from tests.provider import CHAT, plain, serving
from trace_recorder import load

IN_THREAD = """
    import os, signal, sys, threading, warnings
    import httpx
    from trace_recorder import TrajectoryRecorder

    warnings.simplefilter("ignore", DeprecationWarning)  # since 3.12 Python warns of a fork beside threads
    is_importing, is_forking = threading.Event(), threading.Event()

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "trace_recorder.reading.call_facts":
                is_importing.set()
                is_forking.wait()

    recorder = TrajectoryRecorder(sys.argv[2], strict=True)
    client = recorder.wrap(httpx.Client(base_url=sys.argv[1]))
    sys.meta_path.insert(0, Finder())
    client.post("/v1/chat/completions", json={"model": "m", "messages": []})
    is_importing.wait()
    os.register_at_fork(before=is_forking.set)  # a function that is registered later is called earlier
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        recorder.record_llm_interaction([], {"content": "in the child"}, "mine", "m")
        print(recorder.trajectory_path)
        recorder.finalize()
    else:
        os.waitpid(child, 0)
        recorder.finalize()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_waits_while_the_document_thread_imports(tmp_path: Path) -> None:
    """In a child with half a module, the next import of this module would wait for ever."""
    with serving(plain(CHAT)) as server:
        ended = python(IN_THREAD, server.url, tmp_path / "run.json")

    assert ended.stderr == ""
    of_child = load(ended.stdout.strip())
    assert [call.response.content for call in of_child.llm_interactions] == ["in the child"]
    assert of_child.parent == load(tmp_path / "run.json").trajectory_id


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
