"""The guard catches failures of recording, counts them, logs each kind once, and keeps them for the file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chat_calls import run_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.guard import Guard, limit_counts, try_call


class UnspeakableError(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise ValueError("no words")


def guarded(guard: Guard, error: BaseException, what: str = "record a request") -> str:
    with guard.protect(what):
        raise error
    return "the agent goes on"


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), OSError(28, "No space left"), RecursionError(), MemoryError(), UnspeakableError()],
    ids=repr,
)
def test_a_failure_does_not_reach_the_agent(error: Exception) -> None:
    """After a failure of any kind in a guarded block, the code after the block runs."""
    assert guarded(Guard(), error) == "the agent goes on"


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError()], ids=repr
)
def test_an_exit_is_not_a_failure(error: BaseException) -> None:
    """Ctrl-C, cancellation and other exits leave the guard unchanged and uncounted."""
    guard = Guard()

    with pytest.raises(type(error)):
        guarded(guard, error)

    assert (guard.count, list(guard.failures)) == (0, [])


def test_strict_raises_failures() -> None:
    """With `strict`, a failure is counted and raised."""
    guard = Guard(strict=True)

    with pytest.raises(ValueError, match="x"):
        guarded(guard, ValueError("x"))

    assert guard.count == 1


def test_a_failure_is_kept_with_its_work_and_reason() -> None:
    """The failed work and the reason are kept until they can be written."""
    guard = Guard()

    guarded(guard, ValueError("x"))
    guarded(guard, UnspeakableError(), "write the document")

    assert [(one.what, one.why) for one in guard.failures] == [
        ("record a request", "ValueError: x"),
        ("write the document", "UnspeakableError"),
    ]


def test_each_kind_of_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand failures of one kind are counted, and logged once; a failure of a second kind is logged too."""
    guard = Guard()

    for number in range(1000):
        guarded(guard, ValueError(str(number)))
    guarded(guard, TypeError("y"))
    guarded(guard, ValueError("z"), "write the document")

    assert guard.count == 1002
    assert [record.message for record in caplog.records] == [
        "could not record a request: ValueError: 0 (the agent is not affected; logged once)",
        "could not record a request: TypeError: y (the agent is not affected; logged once)",
        "could not write the document: ValueError: z (the agent is not affected; logged once)",
    ]


def test_failures_do_not_fill_the_memory() -> None:
    """The newest thousand of the failures that cannot be written are kept, and the logged kinds are limited too."""
    guard = Guard()

    for number in range(1500):
        guarded(guard, ValueError(str(number)), f"do {number}")

    assert (guard.count, len(guard.failures), guard.failures[0].why) == (1500, 1000, "ValueError: 500")


def test_failures_that_lose_no_record_are_counted_together() -> None:
    """The first of several equal failures is recorded as soon as possible, and the number of the others at the end or
    before a failure of another kind.
    """
    guard = Guard()

    def fail(what: str, times: int) -> None:
        for _ in range(times):
            with guard.protect(what, costs_record=False):
                raise OSError("full")

    def tell() -> list[str]:
        told = [f"{one.what}: {one.describe()}" for one in guard.failures]
        for one in guard.failures:
            one.reported = one.count
        guard.failures.clear()
        return told

    fail("write", 3)
    told = [tell()]
    fail("write", 2)
    told.append(tell())
    with guard.protect("write", costs_record=False):
        pass
    told.append(tell())
    fail("write", 1)
    fail("replace", 1)
    told.append(tell())

    assert told == [
        ["write: OSError: full (3 times)"],
        [],
        ["write: OSError: full (2 more)"],
        ["write: OSError: full", "replace: OSError: full"],
    ]
    assert guard.count == 7


@pytest.fixture
def broken_log() -> Iterator[None]:
    """Install a log handler that raises for every record."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the log is broken")

    handler = Broken()
    logging.getLogger("trace_recorder").addHandler(handler)
    yield
    logging.getLogger("trace_recorder").removeHandler(handler)


@pytest.mark.usefixtures("broken_log")
def test_a_broken_log_does_not_reach_the_agent() -> None:
    """If even the log handler fails, the agent goes on, and the failure is kept."""
    guard = Guard()

    assert (guarded(guard, ValueError("x")), guard.count, len(guard.failures)) == ("the agent goes on", 1, 1)


def test_attempt_returns_the_result_or_the_alternative() -> None:
    """`attempt` returns the result of a function, or the alternative if the function raises anything but an exit."""

    def fails() -> str:
        raise UnspeakableError

    assert (try_call(lambda: "done", lambda _: "not done"), try_call(fails, lambda error: type(error).__name__)) == (
        *("done", "UnspeakableError"),
    )


def test_a_failure_is_recorded_as_soon_as_possible(tmp_path: Path) -> None:
    """A failure is a gap in the journal before the next record, and in the document."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", metadata={"a": 1})
    recorder.start()
    run_of(recorder).guard.queue_failure("record a thought", "it was too long")

    recorder.annotate("k", 1)

    trajectory = load(recorder.trajectory_path)
    assert ([(gap.what, gap.why) for gap in trajectory.gaps], trajectory.annotations) == (
        [("record a thought", "it was too long")],
        {"k": 1},
    )
    recorder.finalize()


def test_a_limit_of_the_system_is_logged_for_all_runs_together(caplog: pytest.LogCaptureFixture) -> None:
    """Of thirty runs without memory, the first and the tenth log one sentence each, without a traceback."""
    limit_counts.clear()
    for _ in range(30):
        guarded(Guard(), MemoryError())
    message = (
        "could not record a request: MemoryError (the agent is not affected; failure %d of this kind in this process)"
    )
    logged = [(record.getMessage(), record.exc_info) for record in caplog.records]
    assert logged == [(message % 1, None), (message % 10, None)]
