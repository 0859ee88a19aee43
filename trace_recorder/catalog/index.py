"""Updates and searches the index of a directory of runs.

The index is derived from the runs, so it may be deleted at any time. A reader compares the state of each file with the
state in the index, and reads the runs that changed. So a search gives the same runs with an index and without one.

The index has a run only if its values cannot change without a change of its files. Every search reads all other runs:
runs that are still running, runs of other tools, which may consist of several files, and files that cannot be read.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trace_recorder.catalog import index_file
from trace_recorder.catalog.index_file import IndexWriter
from trace_recorder.catalog.index_limits import USUAL_LIMITS, IndexLimits
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import Plan, runs_on_disk
from trace_recorder.catalog.query import Term, condition_of, parse_query
from trace_recorder.catalog.rows import Json, costs_json, ended_summary, row_json, row_of, row_of_run, summary_of
from trace_recorder.catalog.run_values import values_of
from trace_recorder.catalog.searched_values import RunValues
from trace_recorder.catalog.value_tables import FactTables, FilesState, KnownRun
from trace_recorder.errors import TrajectoryPathError
from trace_recorder.figures.cost import cost_of, costs_of_calls, may_have_price
from trace_recorder.figures.run_measures import measures_of
from trace_recorder.figures.stats import Stats
from trace_recorder.formats.any_file import Runs, load_each
from trace_recorder.guard import ignore_failures
from trace_recorder.reading.document_ends import document_ends
from trace_recorder.reading.own_files import is_own_file, load_journal_of
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.run_files import real_journal
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import Trajectory


class IndexTask(NamedTuple):
    """A run that must be read: its path, its name in the index, and the state of its files."""

    path: Path
    name: bytes
    state: FilesState


_TICK_NS = 100_000_000
"""If a file was read within this time after a change, it may change again without a new modification time."""


class NotKept(Enum):
    """The reason why a run is not in the index."""

    RUNNING = "still running"
    NEW = "changed just now"
    FOREIGN = "of another tool"
    UNREADABLE = "unreadable"
    UNCLEAR = "with files that disagree"


@dataclass(frozen=True, slots=True)
class KeptRun:
    """The entry of a run in an index.

    `is_of_host` is True if the run has no end on file, so that its status depends on the host.
    """

    name: bytes
    state: FilesState
    values: RunValues
    kept: tuple[str, ...]
    """The parts of the run that the index stores, each as JSON, in the order of the names in `KeptPart`."""
    is_of_host: bool


def keep(tables: FactTables, kept: KeptRun, run: int | None) -> None:
    """Put a run into an index. `run` is the id of the entry to replace, or None for a new run."""
    if run is None:
        run = tables.add(kept.values)
    else:
        tables.change(run, kept.values)
    values = run, kept.name, *kept.state, kept.is_of_host
    tables.connection.execute("REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    tables.keep(run, kept.kept)


def kept_run(task: IndexTask) -> KeptRun | NotKept:
    """Read a run for the index. Return the entry, or the reason why the index cannot have the run."""
    with ignore_failures:
        return _read(task)
    return NotKept.UNREADABLE


def _read(task: IndexTask) -> KeptRun | NotKept:
    """Read a run for the index. Raises any exception if the run cannot be read."""
    began = time.time_ns()
    ends = document_ends(task.path)
    run = None
    if ends is not None:  # a document of the usual form, so that `load_each` would look for its journal too
        run = load_journal_of(task.path)
    if run is None:
        run = next(load_each(task.path))
    if not is_own_run(task.path):
        return NotKept.FOREIGN
    costs_of_each = [*map(cost_of, run.llm_interactions)]
    costs = costs_of_calls(run.llm_interactions, costs_of_each)
    values, row = values_of(run, costs=costs), row_of_run(run, task.path, costs=costs)
    if run.status in {"running", "unknown"}:
        return NotKept.RUNNING
    if task.state.changed > began - _TICK_NS:
        return NotKept.NEW
    if not values.is_exact or not (_states_the_same(ends, run) or _document_agrees(task.path, run)):
        return NotKept.UNCLEAR
    stats = Stats()
    stats.add(run, costs_of_each)
    stats.to_json()  # if this raises, the run counts as unreadable
    summary = summary_of(task.path, "", ends)
    shown_costs: Json | None = None
    if may_have_price(summary["status"], summary["llm_calls"]):
        shown_costs = costs_json(costs)
    row_text, summary_text = json.dumps({**row_json(row), "path": ""}), json.dumps((summary, shown_costs))
    kept = row_text, stats.to_text(), summary_text, measures_of(run, stats).to_text()
    return KeptRun(task.name, task.state, values, kept, run.end_time is None)


def is_own_run(path: Path) -> bool:
    """Return whether this package wrote a file of a run. Raises OSError."""
    if is_own_file(path):
        return True
    journal = journal_path_for(path)
    return journal.is_file() and is_own_file(journal)


_STATED = (
    *("trajectory_id", "parent", "session", "task", "status", "success", "provider", "model"),
    *("start_time", "execution_time"),
)


def _states_the_same(ends: Json | None, run: Trajectory) -> bool:
    """Return whether the ends of a document have the values of the run, as far as a row shows them.

    Then `_document_agrees` returns True too. Such a document need not be read as a trajectory, which takes longer.
    """
    if ends is None:
        return False
    error = None
    if run.error is not None:
        error = run.error.to_document()
    for name in _STATED:
        stated, value = ends.get(name), getattr(run, name)
        if stated != value or type(stated) is not type(value):
            return False
    rewards = [reward.to_document() for reward in run.rewards]
    values = ("metrics", run.metrics), ("metadata", run.metadata), ("rewards", rewards), ("error", error)
    return all(ends.get(name) == value for name, value in values)


def _document_agrees(path: Path, run: Trajectory) -> bool:
    """Return whether the document, which `list` reads, has the same values as the journal."""
    summary = ended_summary(path)
    if summary is None:
        return True
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    rows = [row_of("", path, reading, reading.metrics or metrics) for reading in (summary, run)]
    return rows[0] == rows[1] and summary.metadata == run.metadata and summary.error == run.error


ReadAll = Callable[[Callable[[IndexTask], KeptRun | NotKept], Iterable[IndexTask]], Iterator[KeptRun | NotKept]]
_TRANSACTION_CHARACTERS = 16_000_000
_TRANSACTION_RUNS = 1000


@dataclass(slots=True)
class Update:
    """The result of an update: how many runs the index has now, and how many were read and removed.

    `not_kept` counts by reason the runs that were read and are not in the index. Every search has to read these runs.
    """

    runs: int = 0
    read: int = 0
    removed: int = 0
    not_kept: Counter[NotKept] = field(default_factory=Counter)


class RunIndex:
    """The index of the runs in and below a directory. Its file is in that directory, or at another path."""

    def __init__(self, directory: str | Path, path: str | Path | None = None) -> None:
        self.directory = Path(directory)
        if path is None:
            self.path = index_file.index_path(self.directory)
        else:
            self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunIndex({str(self.directory)!r}, {str(self.path)!r})"

    def update(
        self,
        read_all: ReadAll = map,
        *,
        transaction_runs: int = _TRANSACTION_RUNS,
        limits: IndexLimits = USUAL_LIMITS,
    ) -> Update:
        """Read the runs that are new or have changed, and remove the runs whose files are gone, with their texts.

        Create the index if it is missing or damaged. Wait while another process updates the same index. `read_all`
        calls a function for each task and yields the results, as `map` does. A transaction ends after
        `transaction_runs` runs, or earlier if the texts are long. Raises OSError if the index cannot be written.
        """
        with index_file.writing(self.path, self.directory, limits) as writer:
            return _Updating(writer, transaction_runs).run(self.directory, read_all)

    def forget(self, journals: Collection[str] = ()) -> None:
        """Remove runs from the index, with their texts.

        `journals` has the real paths of the runs' journals. Runs whose files are gone are removed too. An index that is
        damaged, or of another version, is emptied. Wait while another process updates the index. Raises OSError if the
        index cannot be written.
        """
        real_directory = lru_cache(maxsize=1000)(os.path.realpath)
        with index_file.writing(self.path, self.directory) as writer:
            removed = 0
            for known in writer.tables.files():
                path = os.path.join(self.directory, os.fsdecode(known.name))  # noqa: PTH118 - a Path for each run is slow
                if os.path.lexists(path) and real_journal(path, real_directory) not in journals:
                    continue
                writer.tables.remove(known.run)
                removed += 1
                if removed % _TRANSACTION_RUNS == 0:
                    writer.commit()
            if removed or writer.tables.texts.has_deleted() or writer.is_new:
                writer.finish()

    def find(self, query: str) -> Iterator[Path]:
        """Yield the files of the runs that match a query, in the order of `load_all`.

        Runs that changed after the last update are read. A file that cannot be read is left out. Raises QueryError when
        it is called.
        """
        terms = parse_query(query)
        return self._find(terms)

    def contents(self) -> Iterator[str]:
        """Yield all texts in the index that its file has compressed. An index that readers ignore has no texts."""
        with index_file.reading(self.path, self.directory) as tables:
            if tables is not None:
                yield from tables.contents()

    def _find(self, terms: Sequence[Term]) -> Iterator[Path]:
        matches = Matcher(terms)
        for run in Plan(self.directory, condition_of(terms), self.path):
            matching = Runs(iter([run.path]), strict=False, select=matches)
            if run.is_known or next(matching, None) is not None:
                yield run.path


def open_index(directory: str | Path, path: str | Path | None = None) -> RunIndex:
    """Return the index of the runs in and below a directory.

    This function neither reads nor writes a file. `path` is the path of the index, if the index is not in the
    directory. Raises TrajectoryPathError for the address of a store, such as `s3://bucket/runs`.

    Examples:
        >>> index = open_index("trajectories")
        >>> changes = index.update()  # reads the runs that changed
        >>> [*index.find("has:error")]
        []
    """
    for place in (directory, path or directory):
        address = remote_address(Path(place))
        if address is not None:
            raise TrajectoryPathError(
                errno.EINVAL, "An index has local runs only; copy the runs into a local directory first", address
            )
    return RunIndex(directory, path)


def indexes_above(places: Iterable[Path]) -> list[RunIndex]:
    """Return the indexes in these directories, which are real paths, and in all of their parent directories."""
    directories = {above for place in places for above in (place, *place.parents)}
    return [
        RunIndex(directory) for directory in sorted(directories) if os.path.lexists(index_file.index_path(directory))
    ]


class _Updating:
    """Updates an index in one pass over a directory."""

    def __init__(self, writer: IndexWriter, transaction_runs: int) -> None:
        self._writer = writer
        self._transaction_runs = transaction_runs
        self._update = Update()
        self._known: dict[bytes, KnownRun] = {known.name: known for known in writer.tables.files()}
        self._seen: set[bytes] = set()
        self._characters = self._runs = 0

    def run(self, directory: Path, read_all: ReadAll) -> Update:
        for kept in read_all(kept_run, self._tasks(directory)):
            self._update.read += 1
            if isinstance(kept, NotKept):
                self._update.not_kept[kept] += 1
            else:
                self._keep(kept)
        gone = self._known.keys() - self._seen  # their files are gone, or the index cannot have the runs any more
        for run in sorted(self._known[name].run for name in gone):  # neighbours have their texts in the same pages
            self._writer.tables.remove(run)
            self._update.removed += 1
            if self._update.removed % self._transaction_runs == 0:
                self._writer.commit()
        self._writer.finish()
        self._update.runs = len(self._seen)
        return self._update

    def _tasks(self, directory: Path) -> Iterator[IndexTask]:
        """Yield the runs that are new, or that changed after they were indexed."""
        for name, files, state in runs_on_disk(directory):
            known = self._known.get(name)
            if known is None or state != known.state:
                yield IndexTask(files.path, name, state)
            else:
                self._seen.add(name)

    def _keep(self, kept: KeptRun) -> None:
        self._seen.add(kept.name)
        known = self._known.get(kept.name)
        run = None
        if known is not None:
            run = known.run
        keep(self._writer.tables, kept, run)
        self._runs += 1
        self._characters += sum(len(text.text) for text in kept.values.texts)
        if self._characters > _TRANSACTION_CHARACTERS or self._runs >= self._transaction_runs:
            self._writer.commit()
            self._characters = self._runs = 0
