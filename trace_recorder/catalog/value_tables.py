"""Stores the values of runs in tables of SQLite: in the file of an index, or in memory for a run that no index has.

The table `names` has each distinct name once, and `facts` has the runs of each name. `text_tables.py` does the same for
texts. The table `run_contents` has the ids of the names and texts of each run. A name or a text that no run has any
more is deleted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from trace_recorder.catalog import text_tables
from trace_recorder.catalog.index_limits import USUAL_LIMITS, IndexLimits
from trace_recorder.catalog.kept_parts import pack_parts, unpack_parts
from trace_recorder.catalog.memory_database import memory_database
from trace_recorder.catalog.query import Condition
from trace_recorder.catalog.searched_values import (
    COUNTED,
    SINGLE,
    Counted,
    RunValues,
    Single,
    TextSearch,
    counted_values,
)
from trace_recorder.catalog.text_tables import TextTables

_SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE runs (id INTEGER PRIMARY KEY, {", ".join(SINGLE)});
CREATE TABLE names (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (kind, name));
CREATE TABLE facts (name INTEGER, run INTEGER, position INTEGER, text TEXT, number, failed,
                    PRIMARY KEY (name, run, position)) WITHOUT ROWID;
CREATE TABLE run_contents (run INTEGER PRIMARY KEY, names TEXT NOT NULL, texts TEXT NOT NULL);
CREATE TABLE files (run INTEGER PRIMARY KEY, path BLOB UNIQUE NOT NULL, document_changed INTEGER NOT NULL,
                    document_size INTEGER NOT NULL, journal_changed INTEGER NOT NULL, journal_size INTEGER NOT NULL,
                    is_of_host INTEGER NOT NULL);
CREATE TABLE kept (run INTEGER PRIMARY KEY, parts BLOB NOT NULL);
{text_tables.SCHEMA}"""


class FilesState(NamedTuple):
    """The state of a run's files: the times of their last changes (in ns), and their sizes (in bytes)."""

    document_changed: int
    document_size: int
    journal_changed: int
    journal_size: int

    @property
    def changed(self) -> int:
        """The time of the last change of either file."""
        return max(self.document_changed, self.journal_changed)

    @property
    def size(self) -> int:
        """The size of both files together."""
        return self.document_size + self.journal_size


class KnownRun(NamedTuple):
    """A run of an index: its name, its id in the tables, and the state of its files when the indexer read them."""

    name: bytes
    run: int
    state: FilesState


KeptPart = Literal["row", "stats", "summary", "measures"]
"""The parts of a run that an index stores as JSON.

They are the row in the output of `list`, statistics, the row in the viewer's list, and the measures for groups.
"""
KeptParts = Mapping[KeptPart, str]
"""Some of the parts of a run that an index stores, as JSON."""
_PARTS: tuple[KeptPart, ...] = get_args(KeptPart)
_PLACES = ", ".join("?" for _ in ("id", *SINGLE))
_ADD_RUN = f"REPLACE INTO runs VALUES ({_PLACES})"  # noqa: S608 - question marks


class FactTables:
    """The tables of one database. The caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, limits: IndexLimits = USUAL_LIMITS) -> None:
        self.connection = connection
        self.texts = TextTables(connection, limits)
        connection.create_function("folded", 1, _folded, deterministic=True)

    @classmethod
    def in_memory(cls, owner: object) -> FactTables:
        """Return new tables in memory, which exist as long as `owner`."""
        tables = cls(memory_database(owner), IndexLimits(level=0))
        tables.create()
        return tables

    def create(self) -> None:
        """Create the tables."""
        self.connection.executescript(_SCHEMA)

    def add(self, values: RunValues) -> int:
        """Add a run, and return its id in the tables."""
        run = self.connection.execute(_ADD_RUN, (None, *values.single)).lastrowid or 0
        self._add_contents(run, values)
        return run

    def change(self, run: int, values: RunValues) -> None:
        """Replace the values of a run. Delete the names and texts that no run has any more."""
        names, texts = self._remove_contents(run)
        self.connection.execute(_ADD_RUN, (run, *values.single))
        self._add_contents(run, values)
        self._delete_unused(names, texts)

    def remove(self, run: int) -> None:
        """Remove a run, and the names and texts that no other run has."""
        names, texts = self._remove_contents(run)
        self.connection.execute("DELETE FROM runs WHERE id = ?", (run,))
        for table in ("files", "kept"):
            self.connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 - a name of ours
        self._delete_unused(names, texts)

    def keep(self, run: int, parts: Sequence[str]) -> None:
        """Store the parts of a run, in the order of the names in `KeptPart`."""
        self.connection.execute("REPLACE INTO kept VALUES (?, ?)", (run, pack_parts(parts)))

    def matching(self, condition: Condition) -> Iterator[int]:
        """Yield the ids of the runs for which the condition is true."""
        sql = f"SELECT r.id FROM runs r WHERE {condition.sql}"  # noqa: S608 - parameters are apart
        return (run for (run,) in self._ask(sql, condition))

    def kept(self, condition: Condition, parts: Sequence[KeptPart]) -> dict[int, KeptParts]:
        """Return these parts of each matching run as JSON, by the id of the run."""
        if not parts:
            return {run: {} for run in self.matching(condition)}
        sql = f"SELECT r.id, k.parts FROM runs r JOIN kept k ON k.run = r.id WHERE {condition.sql}"  # noqa: S608 - parameters are apart
        kept: dict[int, KeptParts] = {}
        for run, packed in self._ask(sql, condition):
            texts = dict(zip(_PARTS, unpack_parts(packed), strict=True))
            kept[run] = {part: texts[part] for part in parts}
        return kept

    def counted(self, condition: Condition) -> dict[int, Counted]:
        """Return the values by which a search counts runs by the id of each matching run."""
        rows = self.connection.execute("SELECT id, kind, name FROM names")
        names = {number: (kind, name) for number, kind, name in rows if kind in COUNTED}
        sql = f"""SELECT r.id, r.status, r.success, c.names FROM runs r JOIN run_contents c ON c.run = r.id
                  WHERE {condition.sql}"""  # noqa: S608 - parameters are apart
        return {
            run: counted_values(status, success, filter(None, map(names.get, json.loads(numbers))))
            for run, status, success, numbers in self._ask(sql, condition)
        }

    def values(self, condition: Condition, names: Sequence[str]) -> dict[int, tuple[Single, ...]]:
        """Return these values of each matching run, by the id of the run. `names` are some of `SINGLE`."""
        columns = "".join(f", r.{name}" for name in names)
        sql = f"SELECT r.id{columns} FROM runs r WHERE {condition.sql}"  # noqa: S608 - parameters are apart
        return {row[0]: row[1:] for row in self._ask(sql, condition)}

    def of_names(self, names: Sequence[bytes], wanted: Sequence[str]) -> Iterator[tuple[KnownRun, list[Single]]]:
        """Yield the runs with these names that the tables have, each with these values and parts.

        `wanted` has names of `SINGLE`, or of `KeptPart`.
        """
        single, tables = [name for name in wanted if name not in _PARTS], "files f"
        columns = "".join(f", r.{name}" for name in single)
        if single:
            tables += " JOIN runs r ON r.id = f.run"
        if len(single) < len(wanted):
            columns += ", k.parts"
            tables += " JOIN kept k ON k.run = f.run"
        places = ", ".join("?" for _ in names)
        states = "document_changed, document_size, journal_changed, journal_size"
        sql = f"SELECT path, f.run, {states}{columns} FROM {tables} WHERE path IN ({places})"  # noqa: S608 - names of ours
        for name, run, *values in self.connection.execute(sql, names):
            known = KnownRun(name, run, FilesState._make(values[:4]))
            if len(single) == len(wanted):
                yield known, values[4:]
                continue
            by_name: dict[str, Single] = dict(zip(single, values[4:], strict=False))
            by_name |= zip(_PARTS, unpack_parts(values[-1]), strict=True)
            yield known, [by_name[each] for each in wanted]

    def files(self, *, with_host: bool = True) -> list[KnownRun]:
        """Return the names and ids of the runs, and the states of their files.

        If `with_host` is False, leave out the runs whose status depends on the host where the index was written.
        """
        sql = "SELECT path, run, document_changed, document_size, journal_changed, journal_size FROM files"
        if not with_host:
            sql += " WHERE NOT is_of_host"
        rows = self.connection.execute(sql)
        return [KnownRun(row[0], row[1], FilesState._make(row[2:])) for row in rows]

    def clear(self) -> None:
        """Remove all runs."""
        for table in ("runs", "names", "facts", "run_contents"):
            self.connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
        self.texts.clear()

    def contents(self) -> Iterator[str]:
        """Yield all compressed texts: the texts of the runs, and the kept parts."""
        yield from self.texts.texts()
        for (packed,) in self.connection.execute("SELECT parts FROM kept"):
            yield from unpack_parts(packed)

    def _ask(self, sql: str, condition: Condition) -> sqlite3.Cursor:
        parameters: list[str | float] = []
        for parameter in condition.parameters:
            if isinstance(parameter, TextSearch):
                parameters.append(json.dumps([*self.texts.runs_with(parameter)]))
            else:
                parameters.append(parameter)
        return self.connection.execute(sql, parameters)

    def _add_contents(self, run: int, values: RunValues) -> None:
        names = [self._name(named.kind, named.name) for named in values.named]
        facts = (
            (name, run, position, named.text, named.number, named.failed)
            for position, (name, named) in enumerate(zip(names, values.named, strict=True))
        )
        self.connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?)", facts)
        contents = json.dumps(names), json.dumps(_ranges_of(self.texts.add(run, values.texts)))
        self.connection.execute("INSERT INTO run_contents VALUES (?, ?, ?)", (run, *contents))

    def _name(self, kind: str, name: str) -> int:
        """Return the id of a name. Add the name if it is new."""
        execute = self.connection.execute
        row = execute("SELECT id FROM names WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        if row is not None:
            return int(row[0])
        return execute("INSERT INTO names (kind, name) VALUES (?, ?)", (kind, name)).lastrowid or 0

    def _remove_contents(self, run: int) -> tuple[list[int], list[int]]:
        """Remove a run from its names and texts. Return their ids."""
        execute = self.connection.execute
        row = execute("SELECT names, texts FROM run_contents WHERE run = ?", (run,)).fetchone()
        names = json.loads(row[0])
        texts = [text for first, last in json.loads(row[1]) for text in range(first, last + 1)]
        execute("DELETE FROM run_contents WHERE run = ?", (run,))
        self.connection.executemany("DELETE FROM facts WHERE name = ? AND run = ?", ((name, run) for name in names))
        self.texts.remove_uses(run, texts)
        return names, texts

    def _delete_unused(self, names: Iterable[int], texts: Iterable[int]) -> None:
        self.connection.executemany(
            "DELETE FROM names WHERE id = ? AND NOT EXISTS (SELECT 1 FROM facts WHERE name = names.id)",
            ((name,) for name in names),
        )
        self.texts.delete_unused(texts)


def _ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last number of each sequence of consecutive numbers."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _folded(value: Single) -> Single:
    """Return a text in the form in which case is ignored. Any other value is returned unchanged."""
    if isinstance(value, str):
        return value.casefold()
    return value
