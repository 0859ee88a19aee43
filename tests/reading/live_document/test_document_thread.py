"""The document thread: which document it writes next, how long it waits before, and when it leaves the write to a
caller.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest

from tests.agreement import agrees, document
from tests.chat_calls import asked, call, said
from tests.counting import watch
from tests.limits import limited
from trace_recorder.background_work import start_thread
from trace_recorder.reading.live_document.document_thread import DocumentLimits, DocumentThread


class StoppedError(BaseException):
    """Raised instead of letting the thread sleep."""


@dataclass(eq=False)
class Sleeping:
    """A stand-in for the thread's queue that raises instead of waiting."""

    asked_for: list[float] = field(default_factory=list)

    def get(self, timeout: float) -> None:
        self.asked_for.append(timeout)
        raise StoppedError

    def put(self, _: None) -> None:
        pass


@dataclass(eq=False)
class Waiting:
    """A document in the queue of the thread."""

    name: str
    written: list[str]
    seconds: float = 0
    limits: DocumentLimits = field(default_factory=lambda: DocumentLimits(min_pause_seconds=0))

    def predicted_seconds(self) -> float:
        return self.seconds

    def write_in_thread(self) -> None:
        self.written.append(self.name)


def test_the_run_that_has_waited_longest_comes_first() -> None:
    """A run that gets a second record while it waits keeps its place."""
    thread, written = DocumentThread(), list[str]()
    runs = [Waiting(name, written) for name in "abc"]
    for run in (*runs, runs[0]):
        thread.waiting.setdefault(run)

    for _ in runs:
        thread._write_next()

    assert (written, thread.waiting) == (["a", "b", "c"], {})


@pytest.mark.parametrize(("seconds", "least"), [(50, 500), (0, 300)])
def test_a_write_waits_twenty_times_its_likely_cost(seconds: float, least: float) -> None:
    """The wait is also at least as long as the pause of the limits: here 400 seconds."""
    thread, written = DocumentThread(), list[str]()
    thread.waiting[Waiting("a", written, seconds, DocumentLimits(min_pause_seconds=400))] = None
    thread._counted_from = thread._last_end = time.perf_counter()
    queue = thread._wakings = Sleeping()  # type: ignore[assignment]

    with pytest.raises(StoppedError):
        thread._write_next()

    assert written == []
    assert least < queue.asked_for[0] <= max(20 * seconds, 400)


def test_a_removed_document_delays_no_other() -> None:
    """If the thread sleeps because of a large document, and its caller writes that document, the next one is written at
    once.
    """
    thread, written, is_read = DocumentThread(), list[str](), threading.Event()

    class Large(Waiting):
        def predicted_seconds(self) -> float:
            is_read.set()
            return 3600

    large = Large("large", written)
    thread.waiting = {large: None, Waiting("small", written): None}
    worker = threading.Thread(target=thread._write_next, daemon=True)
    worker.start()
    is_read.wait()

    thread.remove(large)

    worker.join(10)
    assert written == ["small"]


def test_the_thread_leaves_the_write_to_a_waiting_caller(tmp_path: Path) -> None:
    """The thread leaves the document unchanged, and counts no failure. The caller then writes the document."""
    recorder = limited(document=DocumentLimits(min_pause_seconds=3600))(tmp_path / "run.json", strict=True)
    recorder.start()
    for number in range(20):
        call(recorder, asked("x" * 5000, str(number)), said("fine", identity=f"r{number}"))
    run = recorder._lifecycle.run
    assert run is not None
    run._writer._caller_waits = True

    run._writer.write_in_thread()

    assert (document(recorder)["journal_records"], run._writer._caller_waits) == (1, False)
    recorder.save_trajectory()
    assert agrees(recorder)
    recorder.finalize()
    assert recorder._lifecycle.guard.count == 0


def test_a_cheap_document_overtakes_an_expensive_one() -> None:
    """An expensive document waits at most twice as long as it would alone."""
    thread, written = DocumentThread(), list[str]()
    dear, cheap = Waiting("dear", written, 50), Waiting("cheap", written, 0.0001)
    thread.waiting = {dear: None, cheap: None}
    thread._counted_from = thread._last_end = time.perf_counter() - 1

    thread._write_next()

    thread.waiting[cheap] = None
    thread._overtaken_seconds = 20.0 * dear.seconds
    queue = thread._wakings = Sleeping()  # type: ignore[assignment]
    with pytest.raises(StoppedError):
        thread._write_next()
    assert (written, [*thread.waiting]) == (["cheap"], [dear, cheap])
    assert 20 * dear.seconds < queue.asked_for[0] <= 2 * 20 * dear.seconds


def test_cheap_documents_are_spread_over_the_wait_of_an_expensive_one() -> None:
    """After each cheap document the next cheap one waits, so that no document is late while the expensive one waits."""
    thread, written = DocumentThread(), list[str]()
    dear, cheap = Waiting("dear", written, 50), Waiting("cheap", written, 0.5)
    thread.waiting = {dear: None, cheap: None}
    thread._counted_from = thread._last_end = time.perf_counter()
    thread._overtaken_seconds = 390.0
    queue = thread._wakings = Sleeping()  # type: ignore[assignment]

    with pytest.raises(StoppedError):
        thread._write_next()

    assert (written, queue.asked_for[0]) == ([], pytest.approx(2 * (390 + 10), abs=5))


def test_a_handler_that_records_while_the_thread_starts_starts_no_second_thread() -> None:
    """Only one thread remains, and it writes the document."""
    thread, written = DocumentThread(), list[str]()
    others, handled = {*threading.enumerate()}, list[bool]()

    def handle_signal(frame: FrameType) -> None:
        if frame.f_code is start_thread.__code__ and not handled:
            handled.append(True)
            thread.wake()

    def new_threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread not in others]

    watch(thread.wake, handle_signal)

    thread.waiting[Waiting("a", written)] = None
    thread.wake()
    end = time.monotonic() + 10
    while (len(new_threads()) != 1 or not written) and time.monotonic() < end:
        time.sleep(0.01)
    assert (handled, len(new_threads()), written) == ([True], 1, ["a"])
