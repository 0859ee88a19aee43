"""When Ctrl-C is delayed: until a piece of work ends, once, and only where Ctrl-C would raise KeyboardInterrupt."""

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
def test_ctrl_c_is_raised_at_the_end_of_the_block_or_on_the_second_press(presses: int, expected: list[str]) -> None:
    """After the first Ctrl-C the rest of the block runs. A second Ctrl-C has its usual effect."""
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _work(presses, done)

    assert (done, signal.getsignal(signal.SIGINT)) == (expected, signal.default_int_handler)


def test_ctrl_c_is_not_lost_if_the_block_fails() -> None:
    """If the block fails after Ctrl-C, KeyboardInterrupt is raised instead of the failure."""
    with pytest.raises(KeyboardInterrupt):
        _work(1, [], ValueError("of the block"))


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "handled"])
def test_the_program_s_own_handling_of_ctrl_c_stays(handler: Handler) -> None:
    """Within the block, Ctrl-C is ignored or handled by the program as before."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interrupt_held():
            inside = signal.getsignal(signal.SIGINT)
            _press()
    finally:
        signal.signal(signal.SIGINT, before)

    assert inside is handler
