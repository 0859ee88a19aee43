"""Loading many runs: those of a directory, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trace_recorder.errors import UnreadableRunsError
from trace_recorder.guard import try_call
from trace_recorder.imports.loader import load
from trace_recorder.storage.paths import runs_in_directory
from trace_recorder.values.trajectory import Trajectory


@dataclass(slots=True)
class Runs(Iterator[Trajectory]):
    """The runs of a directory, each read when it is asked for. `failures` has those that could not be read so far."""

    paths: Iterator[Path]
    strict: bool = True
    failures: dict[Path, Exception] = field(default_factory=dict)

    def __next__(self) -> Trajectory:
        for path in self.paths:
            found = try_call(partial(load, path), partial(self.failures.__setitem__, path))
            if found is not None:
                return found
        if self.failures and self.strict:
            self.strict = False
            raise UnreadableRunsError(self.failures)
        raise StopIteration


def load_all(directory: str | Path, *, strict: bool = True) -> Runs:
    """Return an iterator over the runs of a directory, in the order of their names; one run is in memory at a time.

    A file that is no run does not stop the others. At the end, UnreadableRunsError names all such files; with
    `strict=False` they are in the iterator's `failures` alone. Raises OSError if the directory cannot be read.
    """
    return Runs(iter(runs_in_directory(Path(directory))), strict)
