"""The progress bar: drawn on a terminal for long work, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.terminal import Stderr
from trace_recorder.cli.output import Progress


class Seconds:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    return iter(())


def drawn(seconds: float, *, is_terminal: bool = True) -> str:
    """Return the bars that are drawn during work on three files, each of which takes this many seconds."""
    stderr, clock = Stderr(is_terminal=is_terminal), Seconds()
    with Progress(3, stderr, clock=clock) as progress:
        for _ in progress.over("abc"):
            clock.now += seconds
    return stderr.getvalue()


def test_long_work_has_a_bar() -> None:
    """For long work the bar counts files, and is removed at the end."""
    shown = drawn(0.6)

    assert [count for count in ("0/3", "1/3", "2/3", "3/3") if count in shown] == ["2/3", "3/3"]
    assert shown.endswith(("\x1b[2K", "\x1b[?25h"))


@pytest.mark.parametrize(("seconds", "is_terminal"), [(0.3, True), (9, False)], ids=["short", "pipe"])
def test_short_work_and_pipes_have_no_bar(seconds: float, is_terminal: bool) -> None:
    """No bar is drawn for short work, or in a pipe."""
    assert drawn(seconds, is_terminal=is_terminal) == ""


def test_the_bar_is_removed_before_something_is_printed() -> None:
    """The bar is removed before a line is printed, and drawn again with the next finished file."""
    stderr, clock = Stderr(is_terminal=True), Seconds()
    with Progress(4, stderr, clock=clock) as progress:
        for number in progress.over(range(4)):
            clock.now += 2
            if number == 2:
                progress.hide()
                assert stderr.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))
                stderr.truncate(stderr.seek(0))

    assert "3/4" in stderr.getvalue()
