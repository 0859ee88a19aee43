"""Work on many runs, one after another: with a progress bar, and a sentence for each run that cannot be processed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.text import Text

from trace_recorder.cli.output import console, print_lines, warn
from trace_recorder.cli.progress import Progress
from trace_recorder.cli.read_files import UnreadableError

T = TypeVar("T")


class EachRun:
    """Iterates over the results of runs, and prints why a run has no result. `failed` counts those runs."""

    def __init__(self, total: int) -> None:
        self.failed = 0
        self._console = console()
        self._progress = Progress(total)

    def over(self, results: Iterable[T | UnreadableError]) -> Iterator[T]:
        """Yield the results, without the errors."""
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
