"""Deletes runs by a query, by the size of a directory, or both, if a person orders it. Nothing is deleted by itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from trace_recorder.catalog.index import RunIndex, indexes_above
from trace_recorder.retention.choice import Criteria, ExaminedRuns, StayingRun, choose
from trace_recorder.retention.removal import remove_runs
from trace_recorder.retention.stored_runs import RunPlaces, StoredRun
from trace_recorder.tables.rewritten_rows import named_tables, tables_below


@dataclass(slots=True)
class Pruning:
    """The runs that `prune` deletes, and those that stay.

    `runs` go, the oldest first. `staying` are selected, and stay for a reason. `failures` has why a run could not be
    read or deleted, or why an index could not be written. `unmatched` counts the runs that the query does not select.
    `unneeded` counts the selected runs that stay because the runs fit into `max_size` without their deletion.
    `size_before` is the size of all runs at the paths, in bytes. `tables` are the directories of tables that are
    searched for rows of the runs. `is_done` is False if `prune` was called without `yes`.
    """

    runs: list[StoredRun]
    staying: list[StayingRun]
    failures: dict[Path, Exception]
    unmatched: int
    unneeded: int
    size_before: int
    tables: list[Path]
    is_done: bool = False

    @property
    def size(self) -> int:
        """The size of the runs that go, in bytes."""
        return sum(run.size for run in self.runs)


def prune(  # noqa: PLR0913 - one for each option of the command
    *paths: str | Path,
    where: str | None = None,
    keep: str | Iterable[str] = (),
    max_size: int | None = None,
    index: str | Path | None = None,
    tables: str | Path | Iterable[str | Path] = (),
    yes: bool = False,
) -> Pruning:
    """Choose runs, and delete them if `yes` is True. Without `yes`, no file is changed.

    `paths` are directories, or files of runs. The query `where` (docs/many-runs.md) selects runs. No run that a query
    in `keep` matches is deleted; a text is one query. With `max_size`, in bytes, the oldest selected runs go until the
    runs at `paths` fit. A run goes as a whole: document, journal, temporary files, its entries in the indexes of its
    directory and of all parent directories, and its rows in tables in and below `paths`. `index` is an index elsewhere.
    `tables` are directories in or below which other tables are. docs/after.md says which runs stay.

    Raises ValueError if both `where` and `max_size` are missing, or if there is an `index` and `paths` are not one
    directory. Raises QueryError, also for an empty query, RetentionError, MissingExtraError if there are tables and
    pyarrow is not installed, and OSError if a path cannot be read, if `tables` has no tables, or if the tables or the
    index cannot be written. After an exception, all runs are still there.

    Examples:
        >>> plan = prune("trajectories", where="until:2020-01-01")
        >>> plan.runs, plan.is_done
        ([], False)
    """
    if not paths:
        raise ValueError("prune needs the path of a directory or of a run")
    if where is None and max_size is None:
        raise ValueError("prune needs a query (where), a size (max_size), or both")
    if isinstance(keep, str):
        keep = [keep]
    if isinstance(tables, str | Path):
        tables = [tables]
    places = RunPlaces.of([Path(path) for path in paths])
    elsewhere = None
    if index is not None:
        if len(paths) != 1 or not places.whole:
            raise ValueError("an index belongs to one directory; give prune this directory alone")
        elsewhere = Path(index)
        elsewhere.stat()  # a wrong path would leave the texts in the index
    examined = ExaminedRuns(Criteria.of(where, keep, elsewhere))
    for directory, names in places.roots():
        examined.add(directory, names)
    chosen, unneeded = choose(examined, max_size)
    searched = [*map(named_tables, map(Path, tables)), *map(tables_below, places.whole)]
    pruning = Pruning(
        runs=[*chosen.runs],
        staying=[*examined.staying, *chosen.staying],
        failures=examined.failures,
        unmatched=examined.unmatched,
        unneeded=unneeded,
        size_before=examined.size,
        tables=[*dict.fromkeys(chain.from_iterable(searched))],
        is_done=yes,
    )
    if yes:  # without runs too, because an earlier command may have been killed while it rewrote an index
        directories = {*places.whole, *(run.path.parent for run in pruning.runs)}
        indexes = indexes_above({Path(os.path.realpath(directory)) for directory in directories})
        if elsewhere is not None:
            indexes += [RunIndex(directory, elsewhere) for directory in places.whole]
        failures = remove_runs(pruning.runs, indexes, pruning.tables)
        pruning.runs = [run for run in pruning.runs if run.path not in failures]
        pruning.failures |= failures
    return pruning
