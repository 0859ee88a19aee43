"""When Ctrl-C is delayed: until the end of a piece of work, once, and only where it would be raised."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from trace_recorder.cli.import_command import interrupt_held

Handler = Callable[..., object] | signal.Handlers


def _press() -> None:
    signal.raise_signal(signal.SIGINT)


def _work(presses: int, done: list[str], error: Exception | None = None) -> None:
    with interrupt_held():
        for _ in range(presses):
            _press()
        if error is not None:
            raise error
        done.append("all")


@pytest.mark.parametrize(("presses", "expected"), [(1, ["all"]), (2, [])])
def test_it_is_raised_at_the_end_or_pressed_again_at_once(presses: int, expected: list[str]) -> None:
    """After the first Ctrl-C the rest of the block runs. Then Ctrl-C has its usual effect again."""
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _work(presses, done)

    assert (done, signal.getsignal(signal.SIGINT)) == (expected, signal.default_int_handler)


def test_it_is_not_lost_in_a_failure() -> None:
    """If the block fails after Ctrl-C, KeyboardInterrupt is raised and not the failure."""
    with pytest.raises(KeyboardInterrupt):
        _work(1, [], ValueError("of the block"))


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "handled"])
def test_what_somebody_else_has_set_stays(handler: Handler) -> None:
    """Ctrl-C is ignored, or handled by the program, as before."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interrupt_held():
            inside = signal.getsignal(signal.SIGINT)
            _press()
    finally:
        signal.signal(signal.SIGINT, before)

    assert inside is handler
