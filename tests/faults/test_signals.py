"""What a handler of the user's raises while something is recorded is the user's: it passes, and the run is in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from tests.recording import asked, call, said
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.guard import Guard, attempt
from trace_recorder.validation import validate


class TooLateError(Exception):
    """What a time limit of the user's raises."""


def limit(_: int, __: FrameType | None) -> None:
    """Raise it, two frames deep."""
    _raise()


def _raise() -> None:
    raise TooLateError


class Limit:
    def __call__(self, number: int, frame: FrameType | None) -> None:
        limit(number, frame)

    def method(self, number: int, frame: FrameType | None) -> None:
        limit(number, frame)


HANDLERS: dict[str, Callable[[int, FrameType | None], None]] = {
    "function": limit,
    "lambda": lambda *_: _raise(),
    "method": Limit().method,
    "object": Limit(),
    "partial": partial(limit),
}


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a handler for a signal for a while."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def signalled() -> None:
    """Be interrupted here."""
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_handler_raises_passes_the_guard(handler: str) -> None:
    """Whatever a handler is, what it raises in a guarded block reaches the agent, and is no failure."""
    guard = Guard()

    with handling(HANDLERS[handler]), pytest.raises(TooLateError), guard("record"):
        signalled()

    assert (guard.count, list(guard.failures)) == (0, [])


def test_what_a_handler_raises_passes_where_a_value_is_asked() -> None:
    """So it is where the user's own code is called, whose exceptions are not."""
    with handling(limit), pytest.raises(TooLateError):
        attempt(signalled, lambda _: None)

    with handling(limit):
        assert attempt(_raise, type) is TooLateError


def test_a_time_limit_in_the_middle_of_recording(tmp_path: Path) -> None:
    """It ends the call that was made; the calls before and after it are on file, and the files agree."""
    interrupting = False

    def interrupt(text: str) -> str:
        if interrupting:
            signalled()
        return text

    with TrajectoryRecorder(tmp_path / "run.json", redact=interrupt) as recorder:
        call(recorder, asked("before"), said("x"))
        interrupting = True
        with handling(limit), pytest.raises(TooLateError):
            call(recorder, asked("during"), said("x"))
        interrupting = False
        call(recorder, asked("after"), said("x"))

    asked_for = [one.input_messages[-1].content for one in load(tmp_path / "run.json").llm_interactions]
    assert [one for one in asked_for if one != "during"] == ["before", "after"]
    assert [one for one in validate(tmp_path / "run.json").findings if one.severity == "error"] == []
