"""Stores the values of runs in tables of SQLite: in the file of an index, or in memory for a run that no index has.

The table `texts` has each distinct text once, however many runs have the text. The table `words` has the tokens of the
texts. If no run has a text any more, the text and its tokens are deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

from trace_recorder.catalog.query import Condition
from trace_recorder.catalog.searched_values import MAX_INTEGER, SINGLE, RunValues, Single, TextInRun

_SCHEMA = f"""
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE runs (id INTEGER PRIMARY KEY, {", ".join(SINGLE)});
CREATE TABLE names (run INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, text TEXT, number, failed);
CREATE INDEX names_of_run ON names (run);
CREATE INDEX names_by_kind ON names (kind, name, run, number, failed);
CREATE TABLE texts (id INTEGER PRIMARY KEY, digest BLOB UNIQUE NOT NULL, text TEXT NOT NULL);
CREATE TABLE uses (run INTEGER, number INTEGER, text INTEGER NOT NULL, step INTEGER, place TEXT, what TEXT,
                   PRIMARY KEY (run, number)) WITHOUT ROWID;
CREATE INDEX uses_of_text ON uses (text, run);
CREATE VIRTUAL TABLE words USING fts5 (text, content='texts', content_rowid='id', columnsize=0, tokenize='unicode61');
CREATE TABLE files (run INTEGER PRIMARY KEY, path BLOB UNIQUE NOT NULL, document_changed INTEGER NOT NULL,
                    document_size INTEGER NOT NULL, journal_changed INTEGER NOT NULL, journal_size INTEGER NOT NULL,
                    is_of_host INTEGER NOT NULL);
CREATE TABLE kept (run INTEGER PRIMARY KEY, row TEXT NOT NULL, stats TEXT NOT NULL, summary TEXT NOT NULL,
                   counted TEXT NOT NULL, measures TEXT NOT NULL);
"""


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


KeptPart = Literal["row", "stats", "summary", "counted", "measures"]
"""The parts of a run that an index stores as JSON.

They are the row in the output of `list`, statistics, the row in the viewer's list, the counted values, and the measures
for groups.
"""
KeptParts = Mapping[KeptPart, str]
"""Some of the parts of a run that an index stores, as JSON."""
_PLACES = ", ".join("?" for _ in ("id", *SINGLE))
_ADD_RUN = f"REPLACE INTO runs VALUES ({_PLACES})"  # noqa: S608 - question marks


class FactTables:
    """The tables of one database. The caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        connection.create_function("folded", 1, _folded, deterministic=True)

    @classmethod
    def in_memory(cls) -> FactTables:
        """Return new tables in memory."""
        tables = cls(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        tables.create()
        return tables

    def create(self) -> None:
        """Create the tables."""
        self.connection.executescript(_SCHEMA)

    def add(self, values: RunValues) -> int:
        """Add a run, and return its id in the tables."""
        execute = self.connection.execute
        run = execute(_ADD_RUN, (None, *values.single)).lastrowid or 0
        self._add_names(run, values)
        self._add_uses(run, values.texts)
        return run

    def change(self, run: int, values: RunValues) -> bool:
        """Replace the values of a run. Return whether a text was deleted, because no other run has the text."""
        execute = self.connection.execute
        before = {text for (text,) in execute("SELECT text FROM uses WHERE run = ?", (run,))}
        for table in ("names", "uses"):
            execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 - a name of ours
        execute(_ADD_RUN, (run, *values.single))
        self._add_names(run, values)
        self._add_uses(run, values.texts)
        return self._delete_unused(before)

    def remove(self, run: int) -> bool:
        """Remove a run. Return whether a text was deleted."""
        execute = self.connection.execute
        before = {text for (text,) in execute("SELECT text FROM uses WHERE run = ?", (run,))}
        execute("DELETE FROM runs WHERE id = ?", (run,))
        for table in ("names", "uses", "files", "kept"):
            execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 - a name of ours
        return self._delete_unused(before)

    def matching(self, condition: Condition) -> Iterator[int]:
        """Yield the ids of the runs for which the condition is true."""
        sql = f"SELECT r.id FROM runs r WHERE {condition.sql}"  # noqa: S608 - parameters are apart
        return (run for (run,) in self._ask(sql, condition))

    def kept(self, condition: Condition, parts: Sequence[KeptPart]) -> dict[int, KeptParts]:
        """Return these parts of each matching run as JSON, by the id of the run."""
        columns = "".join(f", k.{part}" for part in parts)
        sql = f"SELECT r.id{columns} FROM runs r JOIN kept k ON k.run = r.id WHERE {condition.sql}"  # noqa: S608 - parameters are apart
        return {run: dict(zip(parts, texts, strict=True)) for run, *texts in self._ask(sql, condition)}

    def values(self, condition: Condition, names: Sequence[str]) -> dict[int, tuple[Single, ...]]:
        """Return these values of each matching run, by the id of the run. `names` are some of `SINGLE`."""
        columns = "".join(f", r.{name}" for name in names)
        sql = f"SELECT r.id{columns} FROM runs r WHERE {condition.sql}"  # noqa: S608 - parameters are apart
        return {run: tuple(values) for run, *values in self._ask(sql, condition)}

    def of_names(self, names: Sequence[bytes], wanted: Sequence[str]) -> Iterator[tuple[KnownRun, list[Single]]]:
        """Yield the runs with these names that the tables have, each with these values and parts.

        `wanted` has names of `SINGLE`, or of `KeptPart`.
        """
        parts = get_args(KeptPart)
        table_of = dict.fromkeys(parts, "k") | dict.fromkeys(SINGLE, "r")
        columns = "".join(f", {table_of[name]}.{name}" for name in wanted)
        tables = "files f"
        if not set(SINGLE).isdisjoint(wanted):
            tables += " JOIN runs r ON r.id = f.run"
        if not set(parts).isdisjoint(wanted):
            tables += " JOIN kept k ON k.run = f.run"
        places = ", ".join("?" for _ in names)
        states = "document_changed, document_size, journal_changed, journal_size"
        sql = f"SELECT path, f.run, {states}{columns} FROM {tables} WHERE path IN ({places})"  # noqa: S608 - names of ours
        for name, run, *values in self.connection.execute(sql, names):
            yield KnownRun(name, run, FilesState(*values[:4])), values[4:]

    def files(self, *, with_host: bool = True) -> list[KnownRun]:
        """Return the names and ids of the runs, and the states of their files.

        If `with_host` is False, leave out the runs whose status depends on the host where the index was written.
        """
        sql = "SELECT path, run, document_changed, document_size, journal_changed, journal_size FROM files"
        if not with_host:
            sql += " WHERE NOT is_of_host"
        return [KnownRun(name, run, FilesState(*state)) for name, run, *state in self.connection.execute(sql)]

    def clear(self) -> None:
        """Remove all runs."""
        for table in ("runs", "names", "uses", "texts"):
            self.connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
        self.connection.execute("INSERT INTO words (words) VALUES ('delete-all')")

    def _ask(self, sql: str, condition: Condition) -> sqlite3.Cursor:
        if condition.is_wanted is not None:
            self.connection.create_function("is_wanted", 1, condition.is_wanted, deterministic=True)
        return self.connection.execute(sql, condition.parameters)

    def _add_names(self, run: int, values: RunValues) -> None:
        rows = ((run, named.kind, named.name, named.text, named.number, named.failed) for named in values.named)
        self.connection.executemany("INSERT INTO names VALUES (?, ?, ?, ?, ?, ?)", rows)

    def _add_uses(self, run: int, texts: Iterable[TextInRun]) -> None:
        for number, text in enumerate(texts):
            step = None
            if isinstance(text.step, int) and abs(text.step) < MAX_INTEGER:
                step = text.step
            use = run, number, self._text(text.text), step, text.place, text.kind
            self.connection.execute("INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)", use)

    def _text(self, text: str) -> int:
        """Return the id of a text. Add the text if it is new."""
        execute = self.connection.execute
        digest = blake2b(text.encode(), digest_size=16).digest()
        row = execute("SELECT id FROM texts WHERE digest = ?", (digest,)).fetchone()
        if row is not None:
            return int(row[0])
        number = execute("INSERT INTO texts (digest, text) VALUES (?, ?)", (digest, text)).lastrowid or 0
        execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, text))
        return number

    def _delete_unused(self, texts: Iterable[int]) -> bool:
        """Delete each text whose id is in `texts` if no run has the text any more.

        Return whether a text was deleted.
        """
        execute, deleted = self.connection.execute, False
        for number in texts:
            if execute("SELECT 1 FROM uses WHERE text = ? LIMIT 1", (number,)).fetchone() is None:
                (text,) = execute("SELECT text FROM texts WHERE id = ?", (number,)).fetchone()
                execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (number, text))
                execute("DELETE FROM texts WHERE id = ?", (number,))
                deleted = True
        return deleted


def _folded(value: Single) -> Single:
    """Return a text in the form in which case is ignored. Any other value is returned unchanged."""
    if isinstance(value, str):
        return value.casefold()
    return value
