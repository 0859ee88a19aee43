"""The flusher's thread flushes all other streams, whatever happens to one of them."""

from __future__ import annotations

import threading

import pytest

from tests.isolation.hooks import fail, no_threads_of_ours
from trace_recorder.capture.stream_flusher import StreamFlusher

PATIENCE = 120.0


class Stream:
    """A stream that counts its flushes."""

    def __init__(self) -> None:
        self.beaten = threading.Event()

    def write_pending(self) -> None:
        self.beaten.set()


class Failing(Stream):
    """A stream whose flush fails."""

    def write_pending(self) -> None:
        super().write_pending()
        fail()


class Ending(Stream):
    """A stream whose flush ends the flusher's thread."""

    def write_pending(self) -> None:
        super().write_pending()
        raise SystemExit


def test_a_failing_flush_stops_no_other() -> None:
    """After a strict run's stream has raised in the flusher's thread, other streams are still flushed."""
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
    flusher.watch(ending)
    assert ending.beaten.wait(PATIENCE)
    thread = flusher._thread
    assert thread is not None
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
