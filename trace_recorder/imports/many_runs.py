"""Loading many runs: those in and below a directory, or of a file with several, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trace_recorder.errors import UnreadableRunsError
from trace_recorder.guard import try_call
from trace_recorder.imports.loader import load_each
from trace_recorder.values.short_forms import call_repr
from trace_recorder.values.trajectory import Trajectory


@dataclass(slots=True)
class Runs(Iterator[Trajectory]):
    """The runs of files, each read when it is asked for. `failures` has the files that could not be read so far."""

    paths: Iterator[Path]
    strict: bool = True
    select: Callable[[Trajectory], bool] | None = None
    """Whether a run is one of them. A run for which this fails cannot be read."""
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
        runs = self._selected(path)
        while (found := try_call(partial(next, runs, None), partial(self.failures.__setitem__, path))) is not None:
            yield found

    def _selected(self, path: Path) -> Iterator[Trajectory]:
        return (run for run in load_each(path) if self.select is None or self.select(run))
