"""Many open sessions: what a request costs, and how the proxy ends their runs."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from types import FrameType

from tests.counting import lines
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.proxy.sessions import SessionRequest, Sessions
from trace_recorder.recording.amend import rebuild_document
from trace_recorder.recording.run import Run


def open_sessions(sessions: Sessions, names: range) -> None:
    """Let the sessions with these numbers ask for their runs."""
    for name in names:
        asyncio.run(sessions.of(request(name)))


def request(name: int) -> SessionRequest:
    header = {"session-id": str(name)}.get
    return SessionRequest("https://model.example/v1/chat/completions", (), header, "openai-chat", b"{}", [])


def test_a_request_looks_at_no_other_session(tmp_path: Path) -> None:
    """The first and the later requests of a session run as many lines with 30 open sessions as with 3."""
    sessions, counts = Sessions(tmp_path), []
    for before, first in ((range(3), 100), (range(3, 30), 200)):
        open_sessions(sessions, before)
        counts.append([lines(lambda: open_sessions(sessions, range(first, first + 1))) for _ in range(2)])  # noqa: B023
    sessions.end()
    assert counts[0] == counts[1]
    assert counts[0][0] > counts[0][1]  # the first one begins a run


def test_a_run_that_begins_looks_at_no_other_run(tmp_path: Path) -> None:
    """To begin a run takes as many lines while 30 runs are open as while 3 are."""
    recorders, counts = [], []
    for number in range(32):
        recorders.append(TrajectoryRecorder(tmp_path / f"{number}.json"))
        counts.append(lines(recorders[-1].start))
    for recorder in recorders:
        recorder.finalize()
    assert counts[3] == counts[30]


def test_the_smallest_documents_are_written_first(tmp_path: Path) -> None:
    """When the proxy ends, each run is complete in both files."""
    sessions = Sessions(tmp_path)
    for number, kilobytes in enumerate([3, 1, 5, 2, 6, 4]):
        session_and_context = asyncio.run(sessions.of(request(number)))
        assert session_and_context is not None
        session_and_context[0].recorder.annotate("notes", "x" * 1000 * kilobytes)
    written: list[Path] = []

    def note_document(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Run.close_files.__code__:
            written.append(frame.f_locals["self"].document)

    threading.setprofile(note_document)  # for the thread that ends the runs
    try:
        sessions.end()
    finally:
        threading.setprofile(None)
    assert [sessions.documents.index(path) for path in written] == [1, 3, 0, 5, 2, 4]
    assert {json.loads(path.read_bytes())["status"] for path in written} == {"completed"}
    assert sessions.incomplete == 0


def test_without_time_every_run_ends_in_its_journal(tmp_path: Path) -> None:
    """The documents stay valid as they were, and are completed from the journals."""
    sessions = Sessions(tmp_path)
    open_sessions(sessions, range(5))
    sessions.end(until=0)
    assert sessions.incomplete == 5
    for path in sessions.documents:
        assert json.loads(path.read_bytes())["status"] == "running"
        run = load(path)
        assert (run.status, run.annotations["ended_by_proxy"].partition(";")[0]) == (
            "completed",
            "as the proxy was stopped",
        )
        rebuild_document(path)
        assert json.loads(path.read_bytes())["status"] == "completed"
