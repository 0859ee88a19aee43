"""Work on many files, runs or traces: a progress bar, and a sentence for each run that cannot be processed.

The bar appears on stderr if stderr is a terminal and the work takes more than a second. The bar shows only numbers, and
no contents of a run. No thread draws the bar: it is updated between two files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

from rich.text import Text

from trace_recorder.cli.output import console, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

T = TypeVar("T")

SECONDS_WITHOUT = 1.0
"""Shorter work has no bar."""
_SECONDS_BETWEEN = 0.1
"""The shortest time between two updates of the bar."""


class Progress:
    """A progress bar that counts files that are done. As a context manager, it removes the bar at the end of the block.

    Without a `total`, the bar shows only how many files are done. `hide` must be called before anything is printed.
    """

    def __init__(
        self,
        total: int | None,
        file: TextIO | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds_without: float = SECONDS_WITHOUT,
    ) -> None:
        self._total = total
        self._file = file or sys.stderr
        self._clock = clock
        self._done = 0
        self._next = clock() + seconds_without
        self._is_shown = self._file is not None and self._file.isatty()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.hide()

    def over(self, results: Iterable[T]) -> Iterator[T]:
        """Yield the results, one for each file, and count those that the caller has processed."""
        self._draw()
        for result in results:
            yield result
            self._done += 1
            self._draw()

    def hide(self) -> None:
        """Remove the bar, so that a line can be printed in its place."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self) -> None:
        now = self._clock()
        if not self._is_shown or now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN
        if self._bar is None:
            self._bar = _start_bar(self._file, self._done, self._total)
        else:
            self._bar.update(self._bar.task_ids[0], completed=self._done, refresh=True)


def _start_bar(file: TextIO, done: int, total: int | None) -> Bar:
    from rich.console import Console  # noqa: PLC0415 - only long work on a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn  # noqa: PLC0415

    bar = Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(file=file),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=total, completed=done)
    bar.start()
    return bar


class EachRun:
    """A loop over the results of runs. It prints why a run has no result. `failed` counts the runs without a result."""

    def __init__(self, total: int) -> None:
        self.failed = 0
        self._console = console()
        self._progress = Progress(total)

    def over(self, results: Iterable[T | UnreadableError]) -> Iterator[T]:
        """Yield the results, and print the errors."""
        with self._progress as progress:
            for result in progress.over(results):
                if isinstance(result, UnreadableError):
                    self.failed += 1
                    progress.hide()
                    warn(str(result))
                else:
                    yield result

    def print(self, lines: Iterable[str | Text]) -> None:
        """Print lines above the progress bar."""
        self._progress.hide()
        print_lines(self._console, lines)
