"""The document thread: which document it writes next, how long it waits before, and when it leaves the write to a
caller.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from types import FrameType

import pytest

from tests.agreement import agrees, document
from tests.chat_calls import asked, call, run_of, said
from tests.counting import kept_by, watch
from tests.limits import limited
from tests.waiting import wait_until
from trace_recorder.background_work import start_thread
from trace_recorder.reading.live_document.document_thread import DocumentLimits, DocumentThread


@dataclass(eq=False)
class Waiting:
    """A document in the queue of the thread. It notes its name and the time when it is written."""

    name: str
    written: list[tuple[str, float]]
    seconds: float = 0
    limits: DocumentLimits = field(default_factory=lambda: DocumentLimits(min_pause_seconds=0))

    def predicted_seconds(self) -> float:
        return self.seconds

    def write_in_thread(self) -> None:
        self.written.append((self.name, time.monotonic()))


class Writes:
    """A thread that has just written a document, and the names of the documents that it writes from then on."""

    def __init__(self) -> None:
        self.thread, self.written = DocumentThread(), list[tuple[str, float]]()
        self.add(Waiting("first", self.written))
        self.wait_for(1)
        [(_, self.began)] = self.written
        self.written.clear()

    def waiting(self, name: str, seconds: float = 0, *, least: float = 0) -> Waiting:
        return Waiting(name, self.written, seconds, DocumentLimits(min_pause_seconds=least))

    def add(self, *documents: Waiting) -> None:
        for one in documents:
            self.thread.add(one)

    def wait_for(self, number: int) -> None:
        wait_until(lambda: len(self.written) >= number)

    def names(self) -> list[str]:
        return [name for name, _ in self.written]

    def seconds(self) -> list[float]:
        """Return the time of each write, counted from the write before it."""
        times = [self.began, *(time for _, time in self.written)]
        return [after - before for before, after in pairwise(times)]


def test_the_run_that_has_waited_longest_comes_first() -> None:
    """A run that gets a second record while it waits keeps its place."""
    writes = Writes()
    runs = [writes.waiting(name, 0.002) for name in "abc"]

    writes.add(*runs, runs[0])
    writes.wait_for(3)

    assert (writes.names(), writes.thread.waiting) == (["a", "b", "c"], {})


@pytest.mark.parametrize(("seconds", "least", "pause"), [(0.003, 0.1, 0.6), (0, 0.4, 0.4)])
def test_a_single_write_waits_two_hundred_times_its_likely_cost(seconds: float, least: float, pause: float) -> None:
    """The wait is also at least as long as the pause of the limits."""
    writes = Writes()

    writes.add(writes.waiting("a", seconds, least=least))
    writes.wait_for(1)

    assert writes.seconds()[0] >= pause * 0.95  # the clock may be adjusted meanwhile


@pytest.mark.parametrize(("number", "multiple"), [(1, 200), (2, 100), (4, 50), (10, 20), (200, 20)])
def test_few_documents_pause_for_longer(number: int, multiple: float) -> None:
    """A document takes at most half a percent of one core, and all documents together at most a twentieth."""
    thread, documents = DocumentThread(), [Waiting(str(one), [], 0.01) for one in range(number)]

    thread.waiting.update(dict.fromkeys(documents, 0.0))  # no thread is started

    assert thread.pause_before(documents[0]) == pytest.approx(multiple * 0.01)


def test_a_removed_document_delays_no_other() -> None:
    """If the thread sleeps because of a large document, and its caller writes that document, the next one is written at
    once.
    """
    writes, is_read = Writes(), threading.Event()

    class Large(Waiting):
        def predicted_seconds(self) -> float:
            is_read.set()
            return 3600

    large, small = Large("large", writes.written), writes.waiting("small", 3600)
    writes.add(large, small)
    is_read.wait()

    small.seconds = 0
    writes.thread.remove(large)
    writes.wait_for(1)

    assert writes.names() == ["small"]


def test_the_thread_leaves_the_write_to_a_waiting_caller(tmp_path: Path) -> None:
    """The thread leaves the document unchanged, and counts no failure. The caller then writes the document."""
    recorder = limited(document=DocumentLimits(min_pause_seconds=3600))(tmp_path / "run.json", strict=True)
    recorder.start()
    for number in range(20):
        call(recorder, asked("x" * 5000, str(number)), said("fine", identity=f"r{number}"))
    run = run_of(recorder)
    run._writer._caller_waits = True

    run._writer.write_in_thread()

    assert (document(recorder)["journal_records"], run._writer._caller_waits) == (1, False)
    recorder.save_trajectory()
    assert agrees(recorder)
    recorder.finalize()
    assert run.guard.count == 0


def test_a_cheap_document_overtakes_an_expensive_one() -> None:
    """An expensive document waits, and all cheap documents together delay it by at most its own pause."""
    writes = Writes()
    dear = writes.waiting("dear", 0.02)

    writes.add(dear, writes.waiting("cheap", 0.0001))
    while "dear" not in writes.names():
        time.sleep(0.01)
        writes.add(writes.waiting("cheap", 0.0001))

    names = writes.names()
    assert (names[0], names.count("dear")) == ("cheap", 1)
    assert sum(writes.seconds()[: names.index("dear") + 1]) >= 20 * 0.02
    assert sum(20 * 0.0001 for name in names[: names.index("dear")]) <= 20 * 0.02


def test_cheap_documents_are_spread_over_the_wait_of_an_expensive_one() -> None:
    """After each cheap document the next cheap one waits, so that no document is late while the expensive one waits."""
    writes = Writes()

    writes.add(writes.waiting("dear", 1000), *(writes.waiting(f"cheap {number}", 0.005) for number in range(4)))
    writes.wait_for(4)

    assert writes.names() == [f"cheap {number}" for number in range(4)]
    least = 2 * 20 * 0.005  # twice the pause of one cheap document
    assert all(after >= number * least for number, after in enumerate(accumulate(writes.seconds()), start=1))


def test_the_cheapest_document_overtakes_first() -> None:
    """Small documents do not wait for larger ones that began to wait before."""
    writes = Writes()

    writes.add(*(writes.waiting(name, seconds) for name, seconds in (("long", 1000), ("b", 0.004), ("a", 0.001))))
    writes.wait_for(2)

    assert writes.names() == ["a", "b"]


def test_a_write_that_takes_longer_than_predicted_is_paid_afterwards() -> None:
    """The next document waits for the rest of the pause, however cheap it is."""
    writes = Writes()

    class Underestimated(Waiting):
        def write_in_thread(self) -> None:
            super().write_in_thread()
            self.seconds = 0.03

    writes.add(Underestimated("dear", writes.written), *(writes.waiting(f"next {number}") for number in range(4)))
    writes.wait_for(2)

    assert (writes.names()[0], writes.seconds()[1] >= 20 * 0.03 * 0.95) == ("dear", True)


def test_a_write_asks_no_other_waiting_document() -> None:
    """The thread asks for as many predictions for each write, however many documents wait."""
    writes, asked = Writes(), list[str]()

    class Counted(Waiting):
        def predicted_seconds(self) -> float:
            asked.append(self.name)
            return 0

    writes.add(*(Counted(str(number), writes.written) for number in range(400)))
    writes.wait_for(400)

    assert len(asked) <= 400 * 12


def test_nothing_is_kept_of_documents_that_wait_no_more() -> None:
    """A document that its caller writes again and again takes no more memory than after the first time."""
    writes = Writes()
    writes.add(writes.waiting("long", 1000))
    again = writes.waiting("again", 2000)

    def objects_after(times: int) -> int:
        for _ in range(times):
            writes.add(again)
            writes.thread.remove(again)
        cheap = writes.waiting("cheap")
        writes.add(cheap)
        before = len(writes.written)
        writes.wait_for(before + 1)
        writes.written.clear()
        return kept_by(writes.thread).objects

    assert objects_after(2000) <= objects_after(200) + 500


def test_a_handler_that_records_while_the_thread_starts_starts_no_second_thread() -> None:
    """Only one thread remains, and it writes the document."""
    thread, written = DocumentThread(), list[tuple[str, float]]()
    others, handled = {*threading.enumerate()}, list[bool]()

    def handle_signal(frame: FrameType) -> None:
        if frame.f_code is start_thread.__code__ and not handled:
            handled.append(True)
            thread.wake()

    def new_threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread not in others]

    watch(thread.wake, handle_signal)

    thread.add(Waiting("a", written))
    wait_until(lambda: len(new_threads()) == 1 and written)
    assert (handled, len(new_threads()), [name for name, _ in written]) == ([True], 1, ["a"])
