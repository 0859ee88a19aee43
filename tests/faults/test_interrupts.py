"""Ctrl-C at any line of the recorder: the agent catches it and goes on, and the run is valid.

A signal's handler raises wherever the main thread is, as for SIGTERM in a server, or Ctrl-C in an interactive agent.
Here a trace function raises instead, once at each line that a recorded call passes.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from tests.chat_calls import Answer, asked, call, said, streamed
from tests.faults.unlucky import limit
from tests.interrupts import interrupted_when
from tests.limits import limited
from tests.processes import ROOT
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.capture.seam import hosts_in_use, request_in_progress
from trace_recorder.reading.validate import validate
from trace_recorder.storage.journal import Journal

PACKAGE = ROOT / "trace_recorder"
LASTING = (
    "storage/journal.py",
    "recording/run.py",
    "recording/unfinished.py",
    "storage/items/conversation_prefix.py",
    "storage/items/encoder.py",
    "storage/redaction/redactor.py",
    "reading/live_document/writer.py",
    "reading/live_document/document_thread.py",
    "storage/atomic_write.py",
    "attach/lifecycle.py",
    "attach/recorder.py",
    "guard.py",
)
"""Modules that keep state between calls, except `capture/`. An interrupt in any other module is seen as one in
these.
"""
LOOKED_AT = {*(PACKAGE / name for name in LASTING), *(PACKAGE / "capture").glob("*.py")}

Place = tuple[str, int]
Trace = Callable[[FrameType, str, Any], Any]


def is_looked_at(name: str) -> bool:
    """Return whether a file is one of these modules, in which an interrupt can leave an operation incomplete."""
    return Path(name) in LOOKED_AT


def passing(act: Callable[[Place], None]) -> Trace:
    """Return a trace function that acts at each line of the recorder."""

    def inside(frame: FrameType, event: str, _: Any) -> Trace:
        if event == "line":
            act((frame.f_code.co_filename, frame.f_lineno))
        return inside

    return lambda frame, _, __: inside if is_looked_at(frame.f_code.co_filename) else None


def traced(trace: Trace, recorder: TrajectoryRecorder, answer: Answer) -> None:
    """Call the model under a trace function, and catch the interrupt as an agent does that goes on."""
    sys.settrace(trace)
    try:
        call(recorder, asked("during"), answer)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)


def places(directory: Path, answer: Answer) -> set[Place]:
    """Return the lines that a recorded call passes."""
    found: set[Place] = set()
    with TrajectoryRecorder(directory / "places.json") as recorder:
        call(recorder, asked("before"), answer)
        traced(passing(found.add), recorder, answer)
    return found


def problems(directory: Path, answer: Answer, content: str, place: Place) -> list[str]:
    """Interrupt a call at a place, let the disk refuse a later record, and return the faults of the run."""

    def interrupt(at: Place) -> None:
        if at == place:
            sys.settrace(None)
            raise KeyboardInterrupt

    path = directory / f"{Path(place[0]).stem}_{place[1]}.json"
    with TrajectoryRecorder(path) as recorder:
        call(recorder, asked("before"), answer)
        traced(passing(interrupt), recorder, answer)
        call(recorder, asked("after"), answer)
        with limit(resource.RLIMIT_FSIZE, path.with_suffix(".jsonl").stat().st_size + 20):
            recorder.annotate("lost", "")
        call(recorder, asked("last"), answer)
    whole = {
        call.input_messages[-1].content: call.response.content if call.complete and call.response else None
        for call in load(path).llm_interactions
    }
    found = [f"{finding.where}: {finding.what}" for finding in validate(path).findings if finding.severity == "error"]
    return found + [f"{one} is lost" for one in ("before", "after", "last") if whole.get(one) != content]


def wrong_at(directory: Path, where: set[Place], answer: Answer, content: str) -> dict[str, list[str]]:
    """Return the places at which an interrupt leaves problems, with these problems."""
    found = {place: problems(directory, answer, content, place) for place in sorted(where)}
    return {f"{Path(name).name}:{line}": wrong for (name, line), wrong in found.items() if wrong}


def test_an_interrupt_leaves_a_valid_run(tmp_path: Path) -> None:
    """After an interrupt anywhere in a call, the calls before and after it are recorded, and the files agree."""
    assert wrong_at(tmp_path, places(tmp_path, said("x")), said("x"), "x") == {}


def test_an_interrupt_in_a_stream_leaves_a_valid_run(tmp_path: Path) -> None:
    """An interrupt may come at any line that only a streamed answer passes."""
    only = places(tmp_path, streamed("a", "b")) - places(tmp_path, said("x"))

    assert wrong_at(tmp_path, only, streamed("a", "b"), "ab") == {}


def test_an_interrupt_around_a_request_leaves_no_mark(tmp_path: Path) -> None:
    """Ctrl-C in Python's own code that enters and leaves `sending` leaves no mark, which would hide later calls."""

    def act() -> None:
        call(recorder, asked("during"), said("x"))

    def is_interrupted(number: int) -> bool:
        moments = count(1)

        def is_moment(frame: FrameType, event: str) -> bool:
            generator = getattr(frame.f_locals.get("self"), "gen", None)
            is_sending = getattr(generator, "__name__", "") == "sending" and event in {"call", "c_return"}
            return is_sending and next(moments) == number

        return interrupted_when(act, is_moment, (contextlib.__file__,))

    before = request_in_progress.get(), {**hosts_in_use}  # the tests above leave marks
    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        for number in count(1):
            if not is_interrupted(number):
                break
            assert (request_in_progress.get(), hosts_in_use) == before
        act()

    assert number > 3
    assert load(tmp_path / "run.json").llm_interactions[-1].complete
    assert [finding for finding in validate(tmp_path / "run.json").findings if finding.severity == "error"] == []


def test_an_interrupt_after_a_write_doubles_no_part(tmp_path: Path) -> None:
    """If Ctrl-C arrives when the system's write returns, the written part is not written again at the end."""
    whole = streamed("one ", "two ", "three")
    first = whole.body.index(b"\n\n") + 2

    def record() -> None:
        with limited(flush_bytes=1)(tmp_path / "run.json") as recorder:
            call(recorder, asked("x", stream=True), Answer(whole.body, media=whole.media, size=first))

    def part_is_written(frame: FrameType, event: str) -> bool:
        is_append = event == "return" and frame.f_code is Journal.append_all.__code__
        return is_append and [kind for kind, _ in frame.f_locals["records"]] == ["llm_stream"]

    assert interrupted_when(record, part_is_written)

    [one] = load(tmp_path / "run.json").llm_interactions
    assert one.raw_stream == whole.body[:first].decode()
