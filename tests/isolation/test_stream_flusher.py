"""The flusher's thread flushes all open streams, whatever happens to one of them."""

from __future__ import annotations

import threading

import pytest

from tests.isolation.hooks import fail, no_threads_of_ours
from trace_recorder.capture.stream_flusher import StreamFlusher

PATIENCE = 120.0


class Stream:
    """A stream that notes when it is flushed."""

    def __init__(self) -> None:
        self.beaten = threading.Event()

    def write_pending(self) -> None:
        self.beaten.set()


class Failing(Stream):
    """A stream that fails at each flush."""

    def write_pending(self) -> None:
        super().write_pending()
        fail()


class Ending(Stream):
    """A stream that ends the thread in which it is flushed."""

    def write_pending(self) -> None:
        super().write_pending()
        raise SystemExit


def test_a_failing_flush_stops_no_other() -> None:
    """After a stream of a strict run has raised in the flusher's thread, the other streams are still flushed."""
    flusher = StreamFlusher(seconds=0.02)
    failing, stream = Failing(), Stream()
    flusher.watch(failing)
    assert failing.beaten.wait(PATIENCE)

    flusher.watch(stream)

    assert stream.beaten.wait(PATIENCE)


@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
def test_an_ended_thread_is_replaced() -> None:
    """If the user's code has ended the thread, for example by SystemExit, the next stream starts a new thread."""
    flusher = StreamFlusher(seconds=0.02)
    ending, stream = Ending(), Stream()
    others = {*threading.enumerate()}
    flusher.watch(ending)
    assert ending.beaten.wait(PATIENCE)
    for thread in {*threading.enumerate()} - others:
        thread.join(PATIENCE)

    flusher.watch(stream)

    assert stream.beaten.wait(PATIENCE)


def test_a_thread_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system starts no thread for one stream, the next stream tries again, and both are flushed."""
    flusher = StreamFlusher(seconds=0.02)
    first, second = Stream(), Stream()
    with monkeypatch.context() as patch:
        no_threads_of_ours(patch)
        with pytest.raises(Exception, match="on purpose"):
            flusher.watch(first)

    flusher.watch(second)

    assert first.beaten.wait(PATIENCE)
    assert second.beaten.wait(PATIENCE)
