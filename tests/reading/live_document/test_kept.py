"""The memory and the open files of a run and its document do not grow with the run, and are released at the
run's end.
"""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from tests.agreement import agrees
from tests.chat_calls import asked, call, run_of, said
from tests.counting import kept_by, watch
from tests.processes import open_below
from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.recording.run import Run
from trace_recorder.storage.journal import Journal
from trace_recorder.values.messages import Message, Payload

LISTS_FILES = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed by /proc")


def test_the_memory_of_a_run_does_not_grow(tmp_path: Path) -> None:
    """Ten times as many calls over a sliding history need about as much memory, also with a document of deltas."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta", strict=True)
    recorder.start()
    talk: list[Payload] = [{"role": "system", "content": "s"}]
    kept = []
    for number in range(660):
        talk.append({"role": "user", "content": f"{number} " + "x" * 1000})
        talk[1:] = talk[-10:]
        call(recorder, asked(*talk), said("fine", identity=f"r{number}"))
        if number in (59, 659):
            recorder.save_trajectory()
            gc.collect()
            kept.append(kept_by(run_of(recorder)))
    recorder.finalize()

    few, many = kept
    assert many.objects - few.objects < 600 * 4
    assert many.characters - few.characters < 600 * 250
    assert recorder.trajectory_path.stat().st_size < 660 * 3000
    assert agrees(recorder)


def test_a_recorded_call_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """Objects that record and show a call are released at once when the call is complete, because they have no
    cycles.
    """
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    talk: list[Payload] = []

    def calls(how_many: int) -> None:
        for _ in range(how_many):
            talk.append(str(len(talk)))
            call(recorder, asked(*talk), said("fine", identity=f"r{len(talk)}"))
        recorder.save_trajectory()

    calls(20)
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        calls(20)
        gc.collect()
        modules = {type(one).__module__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    recorder.finalize()

    assert not {module for module in modules if module.startswith("trace_recorder")}


@LISTS_FILES
def test_a_finished_run_holds_no_file_open(tmp_path: Path) -> None:
    """Once a run has ended, its files are closed, although its recorder still exists and no garbage was collected."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    gc.disable()
    try:
        for number in range(12):
            call(recorder, asked(str(number)), said("fine", identity=f"r{number}"))
        before = open_below(tmp_path)
        recorder.finalize()
        after = open_below(tmp_path)
    finally:
        gc.enable()

    assert (len(before), after) == (1, [])


@LISTS_FILES
def test_a_late_thread_opens_no_file(tmp_path: Path) -> None:
    """A thread that writes the document while its run closes leaves no file open, or skips the write."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    call(recorder, asked("a"), said("fine"))
    run = run_of(recorder)
    threads: list[threading.Thread] = []

    def save_before_the_close(frame: FrameType) -> None:
        if frame.f_code is Journal.close.__code__:
            threads.append(threading.Thread(target=run.save))
            threads[-1].start()
            threads[-1].join()

    watch(recorder.finalize, save_before_the_close)

    assert (len(threads), open_below(tmp_path)) == (1, [])


def test_a_recorder_keeps_none_of_its_finished_runs(tmp_path: Path) -> None:
    """A recorder of many runs keeps at most the last run in memory."""
    recorder = TrajectoryRecorder(directory=tmp_path, strict=True)
    runs = weakref.WeakSet[Run]()
    for _ in range(3):
        recorder.start()
        runs.add(run_of(recorder))
        recorder.finalize()
    gc.collect()

    assert len(runs) == 1


@LISTS_FILES
@pytest.mark.parametrize("look_to_stop_at", [1, 2, 3])
def test_a_stopped_write_leaves_no_file_open(look_to_stop_at: int, tmp_path: Path) -> None:
    """Wherever a write is stopped, in reading or in writing, the journal is closed."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    for number in range(30):
        call(recorder, asked(str(number)), said("x" * 20_000, identity=f"r{number}"))
    recorder.finalize()
    looks = count(1)

    def look() -> None:
        if next(looks) == look_to_stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        WholeDocument(tmp_path / "run.jsonl", "inline", look=look).write(tmp_path / "again.json")

    assert open_below(tmp_path) == []


def test_a_message_is_encoded_once_for_all_calls_that_repeat_it(tmp_path: Path) -> None:
    recorder = TrajectoryRecorder(tmp_path / "run.json", history="delta", strict=True)
    talk: list[Payload] = [{"role": "system", "content": "s" * 10_000}]
    for number in range(40):
        talk.append(str(number))
        call(recorder, asked(*talk), said("fine", identity=f"r{number}"))
    recorder.finalize()
    encoded: list[str] = []

    def look(frame: FrameType) -> None:
        value = frame.f_locals.get("value")
        if frame.f_code.co_name == "render" and isinstance(value, Message):
            encoded.append(value.content)

    watch(lambda: WholeDocument(tmp_path / "run.jsonl", "inline").write(tmp_path / "again.json"), look)

    assert (tmp_path / "again.json").stat().st_size > 40 * 10_000
    assert sorted(encoded) == sorted(["s" * 10_000, *map(str, range(40))])
