"""Ctrl-C while the agent's thread starts a background thread, wakes it or waits for it.

An interrupt breaks `threading.Condition`: its lock stays held, or an exception other than the handler's is raised. So
the recorder does not use it where the agent waits. In `Thread.start`, where Python itself uses it, the recorder raises
the handler's exception.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

from tests.agreement import agrees, document
from tests.chat_calls import asked, call, said
from tests.interrupts import interrupted, interrupted_when
from tests.processes import ROOT
from trace_recorder import AlreadyFinalizedError, TrajectoryRecorder
from trace_recorder.background_work import Event, start_thread
from trace_recorder.exporters.delivery import Delivered
from trace_recorder.exporters.live import LiveExport
from trace_recorder.formats.spans.writing.span import Span
from trace_recorder.formats.spans.writing.span_maker import Conventions
from trace_recorder.recording import process

WAITING = tuple(
    str(ROOT / "trace_recorder" / name)
    for name in (
        "background_work.py",
        "reading/live_document/writer.py",
        "reading/live_document/document_thread.py",
        "exporters/live.py",
        "recording/run.py",
    )
)
QUICK = 60.0
"""A wait that takes longer than this many seconds will never end."""


def took(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@pytest.mark.parametrize("method", ["set", "wait"])
def test_an_interrupted_event_still_works(method: str) -> None:
    """If one of its methods was interrupted, other threads can still set it and wait for it."""
    for at in count(1):
        event = Event()
        acts = {"set": event.set, "wait": lambda event=event: event.wait(0.01)}
        came = interrupted(acts[method], at, WAITING)
        setter = threading.Timer(0.01, event.set)
        setter.start()
        assert took(lambda event=event: event.wait(QUICK)) < QUICK
        assert event.is_set()
        setter.join()
        if not came:
            break


def test_an_event_wakes_all_waiting_threads() -> None:
    """A set event wakes all waiting threads, and later ones do not wait."""
    event = Event()
    results: list[bool] = []
    waiting = [threading.Thread(target=lambda: results.append(event.wait())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    event.set()
    event.set()
    for thread in waiting:
        thread.join()

    assert (results, event.wait(0), Event().wait(0.001)) == ([True] * 3, True, False)


@pytest.mark.parametrize("function", ["_acquire_restore", "_release_save", "wait", "__enter__", "__exit__"])
@pytest.mark.parametrize("event", ["call", "c_return"])
def test_a_handler_s_exception_comes_out_of_a_thread_s_start(function: str, event: str) -> None:
    """Python waits for the thread in a Condition, which raises a RuntimeError if it is interrupted while it takes its
    lock.
    """
    wanted = getattr(threading.Condition, function).__code__

    def is_moment(frame: FrameType, what: str) -> bool:
        return (frame.f_code, what) == (wanted, event)

    def start_interrupted() -> bool:
        return interrupted_when(lambda: start_thread(lambda: None, "test"), is_moment, (threading.__file__,))

    assert any(start_interrupted() for _ in range(100))  # a thread that starts quickly is not waited for


def test_a_handler_s_exception_comes_out_if_the_thread_already_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 then raises a KeyError, because it searches for the thread among those that have not started."""
    name = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
    start, ran = getattr(threading, name), threading.Event()

    def start_and_be_interrupted(*arguments: object, **options: object) -> None:
        start(*arguments, **options)
        ran.wait()
        raise StopError

    monkeypatch.setattr(threading, name, start_and_be_interrupted)
    with pytest.raises(StopError):
        start_thread(ran.set, "test")


class StopError(Exception):
    """The exception of a signal's handler."""


class Endpoint:
    """An exporter's target that accepts everything."""

    name, content, new_messages, flush_seconds = "nowhere", False, True, 10 * QUICK
    conventions: Conventions = "genai"

    def sender(self) -> Endpoint:
        return self

    def send(self, spans: Sequence[Span]) -> bool:
        return len(spans) > 0

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def delivered(self, run: Path) -> Delivered:
        return Delivered(run, "http://nowhere")

    def start(self, journal: Path) -> LiveExport:
        return LiveExport(journal, self)


def record_and_end(recorder: TrajectoryRecorder) -> None:
    """Record a call, for which the document's thread starts, and the end, which waits for that thread."""
    call(recorder, asked("x"), said("y"))
    recorder.finalize(success=True)


@pytest.mark.parametrize("exports", [False, True])
def test_an_interrupted_wait_for_threads_leaves_the_document_complete(tmp_path: Path, *, exports: bool) -> None:
    """At any moment of the interrupt, only its exception is raised, no thread waits for ever, and the document is
    complete.
    """
    wrong: dict[str, list[int]] = {}
    for moment in count(1):
        recorder = TrajectoryRecorder(tmp_path / f"{moment}.json", exporters=[Endpoint()] if exports else [])
        recorder.start()
        began = time.monotonic()
        came = interrupted(partial(record_and_end, recorder), moment, (*WAITING, threading.__file__))
        with suppress(AlreadyFinalizedError):
            recorder.finalize(success=True)
        for observer in [*process.observers]:
            observer.at_exit()
        if time.monotonic() - began > QUICK:
            wrong.setdefault("it waits in vain", []).append(moment)
        if not agrees(recorder) or document(recorder)["status"] == "running":
            wrong.setdefault("the document does not say what the journal says", []).append(moment)
        if not came:
            break

    assert wrong == {}
