"""Loading many runs: those in and below a directory, or of a file with several, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trace_recorder.errors import UnreadableRunsError
from trace_recorder.guard import try_call
from trace_recorder.imports.loader import load_each
from trace_recorder.storage.run_files import runs_in_directory
from trace_recorder.values.short_forms import call_repr
from trace_recorder.values.trajectory import Trajectory


@dataclass(slots=True)
class Runs(Iterator[Trajectory]):
    """The runs of files, each read when it is asked for. `failures` has the files that could not be read so far."""

    paths: Iterator[Path]
    strict: bool = True
    failures: dict[Path, Exception] = field(default_factory=dict)
    _file: Iterator[Trajectory] = field(default_factory=lambda: iter(()))
    _path: Path | None = None
    _read: int = 0

    def __repr__(self) -> str:
        """Say what was read so far, without reading on."""
        counts = {"read": self._read, **({"failed": len(self.failures)} if self.failures else {})}
        return call_repr("Runs", {"path": str(self._path), "strict": self.strict, **counts})

    def __next__(self) -> Trajectory:
        run = self._next()
        self._read += 1
        return run

    def _next(self) -> Trajectory:
        for run in self._file:
            return run
        for path in self.paths:
            self._file = self._readable(path)
            for run in self._file:
                return run
        if self.failures and self.strict:
            self.strict = False
            raise UnreadableRunsError(self.failures)
        raise StopIteration

    def _readable(self, path: Path) -> Iterator[Trajectory]:
        """Yield the runs of a file until one cannot be read."""
        runs = load_each(path)
        while (found := try_call(partial(next, runs, None), partial(self.failures.__setitem__, path))) is not None:
            yield found


def load_all(path: str | Path, *, strict: bool = True) -> Runs:
    """Return an iterator over the runs in a directory and those below it; one run is in memory at a time.

    The runs of each directory come in the order of their names, then those of the directories in it.
    Of a file, such as a log or a database of another tool, it has all runs (docs/import.md). A file that is no run does
    not stop the others. At the end, UnreadableRunsError names all such files; with `strict=False` they are in the
    iterator's `failures` alone. Raises OSError if the directory cannot be read.
    """
    path = Path(path)
    return Runs(iter([path]) if path.is_file() else runs_in_directory(path), strict, _path=path)
