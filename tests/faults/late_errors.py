"""Exceptions that a signal's handler raises at each place of the package, for tests of where they come out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tests.processes import ROOT

PACKAGE = str(ROOT / "trace_recorder")
Place = tuple[str, int]


class LateSystemError(TimeoutError, ConnectionError, FileNotFoundError, FileExistsError, BlockingIOError):
    """An exception of every subclass of OSError that our code handles."""


class LateError(LateSystemError, ValueError, KeyError, IndexError, RuntimeError, TypeError):
    """An exception of every type that our except clauses name."""


def raise_late(_: int, __: FrameType | None) -> None:
    """Raise the exception. This is the handler."""
    raise LateError("too late")


@contextmanager
def profiled(act: Callable[[Place], None]) -> Iterator[None]:
    """Act at each place of the package at which Python may run signal handlers."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(PACKAGE):
            act((frame.f_code.co_filename, frame.f_lineno))

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def places_of(act: Callable[[], object]) -> set[Place]:
    """Return the places that are passed during an act."""
    found: set[Place] = set()
    with profiled(found.add):
        act()
    return found


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a handler for a signal during a block."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
