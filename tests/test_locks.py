"""The locks of recording, which tell a destructor whether its thread holds a lock."""

from __future__ import annotations

import os
import re
import threading
from itertools import count
from pathlib import Path

import pytest

import trace_recorder
from tests.chat_calls import asked, call, said, streamed
from tests.interrupts import PACKAGE, interrupted
from trace_recorder import TrajectoryRecorder
from trace_recorder.locks import holds_lock, new_lock

_ELSEWHERE = {"all_clients.py", "method_seams.py", "websocket_clients.py"}
"""Locks that are held while classes are patched, and never during a record.

The last file has a lock of tasks, which blocks no thread.
"""


def test_a_thread_holds_a_lock_until_it_releases_it() -> None:
    """A thread that acquires a lock twice holds it until the second release, and no other thread holds it meanwhile."""
    lock, of_others = new_lock(), list[bool]()
    before = holds_lock()
    with lock:
        with lock:
            inside = holds_lock()
        other = threading.Thread(target=lambda: of_others.append(holds_lock()))
        other.start()
        other.join()
        still = holds_lock()

    assert (before, inside, still, of_others, holds_lock()) == (False, True, True, [False], False)


def test_an_interrupted_block_keeps_no_lock() -> None:
    """A handler's exception may come at any moment at which a block in another one takes or releases its lock."""
    lock = new_lock()

    def hold() -> None:
        with lock:
            pass

    for moment in count(1):
        with lock:
            came = interrupted(hold, moment, (*PACKAGE, __file__))
        assert not holds_lock()
        if not came:
            break


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 and later warn of a fork beside threads
def test_a_forked_child_holds_no_lock_of_a_parent_s_thread() -> None:
    """A thread of a forked child holds no lock, even if it has the id of a parent's thread that held one."""
    lock, is_held, may_end = new_lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            may_end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(60)
    child = os.fork()
    if child == 0:
        of_child: list[bool] = []
        thread = threading.Thread(target=lambda: of_child.append(holds_lock()))
        thread.start()
        thread.join()
        os._exit(0 if of_child == [False] and lock.acquire(blocking=False) else 1)
    _, status = os.waitpid(child, 0)
    may_end.set()
    holder.join()

    assert os.waitstatus_to_exitcode(status) == 0


def test_a_record_is_masked_and_written_under_a_lock(tmp_path: Path) -> None:
    """A record is masked and written under a lock, so that records of objects that are collected meanwhile wait."""
    of_records: list[bool] = []

    def redact(text: str) -> str:
        of_records.append(holds_lock())
        return text

    with TrajectoryRecorder(tmp_path / "run.json", redact=redact, strict=True) as recorder:
        recorder.annotate("k", "v")
        recorder.record_agent_step(1, "done", reflection="It is done.")
        call(recorder, asked("hello"), said("Hello."))
        call(recorder, asked("go on", stream=True), streamed("Hel", "lo."))

    assert (set(of_records), holds_lock()) == ({True}, False)


def test_every_lock_of_recording_is_a_known_lock() -> None:
    """The rooms that record create locks only by `new_lock`."""
    package = Path(trace_recorder.__file__).parent
    rooms = ("attach", "capture", "reading", "recording", "storage")
    texts = {path: path.read_text() for room in rooms for path in (package / room).rglob("*.py")}
    others = {path.name for path, text in texts.items() if re.search(r"\bR?Lock\(\)", text)}

    assert (others, any("new_lock()" in text for text in texts.values())) == (_ELSEWHERE, True)
