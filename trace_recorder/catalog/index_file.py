"""Reads and writes the file of an index. Readers trust the file only if its modification time shows that it is intact.

SQLite itself notices only some damage. So in each transaction, the indexer writes a time into a table: a whole, even
number of seconds. After the transaction, the indexer sets the file's modification time to this time. If another program
writes to the file, or if an indexer is killed while it writes, the two times differ. Readers then ignore the file, and
the indexer makes it again.

Only the indexer writes. It holds a lock on the directory of the file, so a second indexer waits. Readers hold SQLite's
own shared lock while they read. A reader that cannot use the file works as if there were no index.
"""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from trace_recorder.catalog.value_tables import FactTables
from trace_recorder.figures.own_prices import own_prices
from trace_recorder.storage.file_system import directory_lock
from trace_recorder.version import __version__

INDEX_NAME = ".trace-recorder.sqlite3"
_SECOND = 1_000_000_000
_FORM = 7
"""The version of the tables, and of the values in the tables."""
_SQLITE, _APPLICATION, _OURS = b"SQLite format 3\0", slice(68, 72), b"TRix"
"""The first bytes of an SQLite file, the byte range of its application id, and the application id of an index."""
_NOT_WRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_WAIT_SECONDS = 0.05
_ATTEMPTS = 10


def index_path(directory: Path) -> Path:
    """Return the default path of the index of a directory."""
    return directory / INDEX_NAME


@contextmanager
def reading(path: Path, directory: Path) -> Iterator[FactTables | None]:
    """Yield the tables of an index. Nothing writes to them inside the block. Yield None if there is no intact index."""
    connection = _opened_intact(path, directory)
    if connection is None:
        yield None
        return
    with closing(connection):
        yield FactTables(connection)


def _opened_intact(path: Path, directory: Path) -> sqlite3.Connection | None:
    """Open an index and begin to read it.

    While an indexer ends a transaction, the modification time is wrong for a moment. So try again, but only if an
    indexer is at work.
    """
    for attempt in range(_ATTEMPTS):
        if not path.is_file() or (attempt and not _has_writer(path)):
            return None
        if attempt:
            time.sleep(_WAIT_SECONDS)
        connection = None
        with suppress(sqlite3.Error, OSError):
            connection = sqlite3.connect(
                f"file:{quote(os.fsencode(path.absolute()))}?mode=ro", uri=True, isolation_level=None, timeout=1.0
            )
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("BEGIN")
            about = _about(connection)  # this takes SQLite's shared lock, so nothing is written from here on
            if about.get("time") == str(path.stat().st_mtime_ns):
                if _is_expected(about, path, directory):
                    return connection
                connection.close()
                return None
        if connection is not None:
            connection.close()
    return None


def _has_writer(path: Path) -> bool:
    """Return whether an indexer holds the lock of the directory. Return True if locks are not supported."""
    try:
        with directory_lock(path.parent, shared=True) as is_free:
            return not is_free
    except OSError:
        return True


class IndexWriter:
    """Writes an index. The function `writing` yields the writer, and lets only one process write.

    `has_deleted_words` is True while the file has tokens of deleted texts. The file has this value too, for the next
    indexer.
    """

    def __init__(self, path: Path, directory: Path) -> None:
        self._path = path
        self._directory = directory
        self.is_new = not self._is_intact() or not self._has_expected_facts()
        if self.is_new:
            self._refuse_other_file()
        self._journal().unlink(missing_ok=True)  # of an interrupted transaction
        if self.is_new:  # the file is emptied in place, so that readers that have opened it notice this
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            self._path.chmod(0o600)
        self._connection = self._connected()
        self.tables = FactTables(self._connection)
        if self.is_new:
            self._connection.execute(f"PRAGMA application_id={int.from_bytes(_OURS)}")
            self.tables.create()
        self.has_deleted_words = _about(self._connection).get("has_deleted_words") == "1"
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End the transaction, set the modification time of the file, and begin the next transaction."""
        stamp = int(time.time()) // 2 * 2 * _SECOND
        values = {**_expected(self._path, self._directory), "time": str(stamp), "host": socket.gethostname()}
        values["has_deleted_words"] = str(int(self.has_deleted_words))
        self._connection.executemany("REPLACE INTO about VALUES (?, ?)", values.items())
        self._connection.execute("COMMIT")
        os.utime(self._path, ns=(stamp, stamp))
        self._connection.execute("BEGIN IMMEDIATE")

    def forget_deleted_words(self) -> None:
        """Write all tokens again without the tokens of deleted texts.

        FTS5 alone would keep these tokens in the file for some time.
        """
        if self.has_deleted_words:
            self._connection.execute("INSERT INTO words (words) VALUES ('optimize')")
            self.has_deleted_words = False

    def close(self) -> None:
        """Close the index. Changes since the last commit are lost."""
        self._connection.close()

    def _is_intact(self) -> bool:
        """Return whether an indexer was the last program that wrote to the file.

        If so, the file has no changes of an interrupted transaction, and the SQLite journal of that transaction may be
        deleted.
        """
        try:
            state = self._path.stat()
        except OSError:
            return False
        return state.st_size > 0 and state.st_mtime_ns % (2 * _SECOND) == 0

    def _has_expected_facts(self) -> bool:
        stamp = self._path.stat().st_mtime_ns
        with suppress(sqlite3.Error):
            uri = f"file:{quote(os.fsencode(self._path.absolute()))}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                about = _about(connection)
            return about.get("time") == str(stamp) and _is_expected(about, self._path, self._directory)
        return False

    def _refuse_other_file(self) -> None:
        """Raise OSError if the file is not an index, because the writer would overwrite it.

        A file at the default path is treated as an index, unless it is a link.
        """
        if self._path.name == INDEX_NAME and not self._path.is_symlink():
            return
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            beginning = file.read(_APPLICATION.stop)
            if beginning and (not beginning.startswith(_SQLITE) or beginning[_APPLICATION] != _OURS):
                reason = "this file is not an index, and is not overwritten; delete it, or name another one"
                raise OSError(errno.EEXIST, reason, str(self._path))

    def _journal(self) -> Path:
        return self._path.with_name(self._path.name + "-journal")

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=60.0)
        connection.executescript(
            "PRAGMA journal_mode=DELETE; PRAGMA secure_delete=ON; PRAGMA temp_store=MEMORY; "
            "PRAGMA cache_size=-65536; PRAGMA cache_spill=OFF; PRAGMA synchronous=NORMAL;"
        )
        return connection


@contextmanager
def writing(path: Path, directory: Path) -> Iterator[IndexWriter]:
    """Yield the writer of an index.

    Wait while another process writes the index. Raises OSError if the index cannot be written.
    """
    try:
        with directory_lock(path.parent, wait=True), closing(IndexWriter(path, directory)) as writer:
            yield writer
    except sqlite3.Error as error:
        code = errno.EIO
        if error.sqlite_errorcode & 0xFF in _NOT_WRITABLE:
            code = errno.EROFS
        raise OSError(code, f"the index cannot be written ({error})", str(path)) from error


def is_of_this_host(tables: FactTables) -> bool:
    """Return whether the index was written on this host.

    The status of a run without an end depends on whether its writer is alive, and that is known only on the writer's
    host.
    """
    return _about(tables.connection).get("host") == socket.gethostname()


def _about(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM about"))


def _is_expected(values: dict[str, str], path: Path, directory: Path) -> bool:
    return all(values.get(name) == value for name, value in _expected(path, directory).items())


def _expected(path: Path, directory: Path) -> dict[str, str]:
    """Return values for the table `about`. An index is used only if its table has these values.

    The values in an index depend on the versions of this package and of its prices, and on the directory. If the index
    is inside its directory, both may be moved together.
    """
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - a list without an index does not need this module

    place = directory.resolve()
    try:
        prices = version("genai-prices")
    except PackageNotFoundError:
        prices = ""
    own = own_prices()
    if own is not None:
        prices += f" and {own.digest}"
    return {
        "form": f"{_FORM} {__version__} {sqlite3.sqlite_version}",
        "prices": prices,
        "directory": "" if path.parent.resolve() == place else os.fsencode(place).hex(),
    }
