"""Read-only access to a SQLite file that cannot be trusted.

Only ordinary tables are read, with limits on work and size.
"""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.values.messages import Payload

MAGIC = b"SQLite format 3\x00"
MAX_VALUE_BYTES = 64 * 1024 * 1024
"""A text or a blob may have at most this many bytes, like a line of a file. SQLite refuses to read a longer value."""
_FREE_BYTES = 16 * 1024 * 1024
_MAX_READINGS = 50
"""All rows that are read may together have at most this many times the bytes of the file, and `_FREE_BYTES` more.

Tables are read more than once. In the database of `llm`, an attachment is read each time a message refers to it.
"""
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
_OPERATIONS = 1_000
_MAX_ROUNDS = 10_000_000
"""Reading one file may take at most this many rounds, which last some minutes.

A round is `_OPERATIONS` instructions of SQLite. After the last round, SQLite raises an error.
"""


@dataclass(slots=True)
class Database:
    """An open SQLite file, and the columns of each of its tables, without computed columns.

    `bytes_left` is the number of bytes that may still be read from rows. In a damaged file, many rows may share the
    same pages, so that the rows have far more bytes than the file.
    """

    connection: sqlite3.Connection
    bytes_left: int
    columns: dict[str, list[str]] = field(default_factory=dict)

    def rows(self, table: str, where: str = "", *values: Payload, blobs: bool = False) -> Iterator[Members]:
        """Yield the rows of a table, by default in the order in which they were written.

        Yield nothing if there is no such table.

        If `blobs` is false, a blob becomes a text. Any column of SQLite may have a blob, and the readers expect texts.
        Raises TrajectoryFormatError if the rows have more bytes than the file can have.
        """
        if table not in self.columns:
            return
        names = ", ".join(_quoted(name) for name in self.columns[table])
        for row in self.connection.execute(f'select {names} from "{table}" {where}', values):  # noqa: S608 - as stated
            self.bytes_left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if self.bytes_left < 0:
                raise TrajectoryFormatError("The rows of the database have more bytes than its file: it is damaged.")
            yield dict(row) if blobs else {name: _text_of(value) for name, value in dict(row).items()}

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is a table `table` with the columns `columns`."""
        return set(columns) <= {*self.columns.get(table, ())}


def log_of(path: Path) -> Path:
    """Return the path of the log that SQLite writes beside a database."""
    return path.with_name(f"{path.name}-wal")


def is_database(source: Source) -> bool:
    """Return whether a file is a database of SQLite."""
    return source.head.startswith(MAGIC)


@contextmanager
def open_database(source: Source) -> Iterator[Database]:
    """Open a file without changing the file, or the files beside it.

    Its log has the newest rows, and is added to `read_too`. Raises TrajectoryFormatError if the file is damaged.
    """
    path = source.path
    address, log = f"{path.absolute().as_uri()}?mode=ro", log_of(path)
    if log.is_file():
        source.read_too.add(log)
    else:  # SQLite would ignore the log of an immutable file
        address += "&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            yield _prepared(connection, path.stat().st_size)
    except sqlite3.Error as error:
        raise TrajectoryFormatError(f"{path} cannot be read as a database: {error}") from None


def _prepared(connection: sqlite3.Connection, size: int) -> Database:
    rounds = iter(range(_MAX_ROUNDS))
    connection.set_progress_handler(lambda: int(next(rounds, None) is None), _OPERATIONS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    tables = connection.execute("select name from sqlite_master where type = 'table' and sql like 'create table%'")
    names = [row["name"] for row in tables.fetchall()]
    infos = {name: connection.execute(f"pragma table_info({_quoted(name)})") for name in names}
    columns = {name: [row["name"] for row in rows] for name, rows in infos.items()}
    connection.set_authorizer(_authorize)
    return Database(connection, _FREE_BYTES + _MAX_READINGS * size, columns)


def _authorize(action: int, *_: str | None) -> int:
    """Allow only to read columns. Nothing that the file's schema defines can then be executed, or change the file.

    `pragma trusted_schema` would refuse harmless files, such as those with an index over a member of a JSON text.
    """
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _text_of(value: Payload | bytes) -> Payload:
    """Return a blob as its UTF-8 text, or otherwise as a data URI. Return any other value unchanged."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"data:application/octet-stream;base64,{b64encode(value).decode('ascii')}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
