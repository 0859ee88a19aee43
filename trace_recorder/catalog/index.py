"""The index of a directory of runs: brought up to date, and asked.

It is derived from the runs, and may be deleted at any time. Whoever asks it compares the state of each file with the
one that the index states, and reads the runs that changed. So the answers are those of the runs themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder.catalog import index_file
from trace_recorder.catalog.conditions import condition_of
from trace_recorder.catalog.file_states import State, states_of
from trace_recorder.catalog.index_file import IndexWriter
from trace_recorder.catalog.kept_runs import KeptRun, NotKept, Task, keep, kept_run
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import Plan
from trace_recorder.catalog.query import Term, parse_query
from trace_recorder.imports.many_runs import Runs

ReadAll = Callable[[Callable[[Task], KeptRun | NotKept], Iterable[Task]], Iterator[KeptRun | NotKept]]
_TRANSACTION_CHARACTERS = 16_000_000
_TRANSACTION_RUNS = 1000


@dataclass(slots=True)
class Update:
    """The result of an update: how many runs the index has, and how many were read or removed.

    `not_kept` counts the runs that are read each time, by the reason.
    """

    runs: int = 0
    read: int = 0
    removed: int = 0
    not_kept: Counter[NotKept] = field(default_factory=Counter)


class RunIndex:
    """The index of the runs in and below a directory, in a file in it or at another path."""

    def __init__(self, directory: str | Path, path: str | Path | None = None) -> None:
        self.directory = Path(directory)
        self.path = index_file.index_path(self.directory) if path is None else Path(path)

    def __repr__(self) -> str:
        return f"RunIndex({str(self.directory)!r}, {str(self.path)!r})"

    def update(self, read_all: ReadAll = map, *, transaction_runs: int = _TRANSACTION_RUNS) -> Update:
        """Read the runs that changed, and remove those that are gone, with their texts.

        The index is made if it is missing or damaged. Another process that does the same is waited for.
        `read_all` calls a function for each of many tasks, as `map` does. After `transaction_runs` runs, or many
        texts, what was read is on file. Raises OSError.
        """
        with index_file.writing(self.path, self.directory) as writer:
            return _Updating(writer, transaction_runs).run(self.directory, read_all)

    def find(self, query: str) -> Iterator[Path]:
        """Yield the files of the runs that match a query, in the order of `load_all`.

        The runs that are not in the index as they are now are read. A file that cannot be read is left out. Raises
        QueryError at once.
        """
        terms = parse_query(query)
        return self._find(terms)

    def _find(self, terms: Sequence[Term]) -> Iterator[Path]:
        matches = Matcher(terms)
        for one in Plan(self.directory, condition_of(terms), self.path):
            runs = Runs(iter([one.path]), strict=False, select=matches)
            if one.is_known or next(runs, None) is not None:
                yield one.path


def open_index(directory: str | Path, path: str | Path | None = None) -> RunIndex:
    """Return the index of the runs in and below a directory. Nothing is read or written until it is asked to.

    `path` is where its file is, if that is not in the directory.
    """
    return RunIndex(directory, path)


class _Updating:
    """One pass over a directory."""

    def __init__(self, writer: IndexWriter, transaction_runs: int) -> None:
        self._writer = writer
        self._transaction_runs = transaction_runs
        self._update = Update()
        self._known: dict[bytes, tuple[int, State]] = {row[0]: (row[1], row[2:]) for row in writer.tables.files()}
        self._seen: set[bytes] = set()
        self._characters = self._runs = 0

    def run(self, directory: Path, read_all: ReadAll) -> Update:
        for kept in read_all(kept_run, self._tasks(directory)):
            self._update.read += 1
            if isinstance(kept, NotKept):
                self._update.not_kept[kept] += 1
            else:
                self._keep(kept)
        self._remove_gone()
        self._writer.forget_deleted_words()
        self._writer.commit()
        self._update.runs = len(self._seen)
        return self._update

    def _tasks(self, directory: Path) -> Iterator[Task]:
        """Yield the runs that are not in the index as they are now."""
        for name, files, state in states_of(directory):
            known = self._known.get(name)
            if known is None or state != known[1]:
                yield files.path, name, state
            else:
                self._seen.add(name)

    def _keep(self, kept: KeptRun) -> None:
        self._seen.add(kept.name)
        known = self._known.get(kept.name)
        self._writer.has_deleted_words |= keep(self._writer.tables, kept, None if known is None else known[0])
        self._runs += 1
        self._characters += sum(len(text) for *_, text in kept.facts.texts)
        if self._characters > _TRANSACTION_CHARACTERS or self._runs >= self._transaction_runs:
            self._writer.commit()
            self._characters = self._runs = 0

    def _remove_gone(self) -> None:
        """Remove the runs whose files are gone, and those that are not kept any more."""
        for path in self._known.keys() - self._seen:
            self._writer.has_deleted_words |= self._writer.tables.remove(self._known[path][0])
            self._update.removed += 1
