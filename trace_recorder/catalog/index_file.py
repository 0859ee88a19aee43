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
from zlib import crc32

from trace_recorder.catalog.index_limits import USUAL_LIMITS, IndexLimits
from trace_recorder.catalog.kept_parts import DICTIONARY
from trace_recorder.catalog.value_tables import FactTables
from trace_recorder.figures.own_prices import own_prices
from trace_recorder.storage.file_system import directory_lock
from trace_recorder.version import __version__

INDEX_NAME = ".trace-recorder.sqlite3"
_SECOND = 1_000_000_000
_FORM = 11
"""The version of the tables, and of the values in the tables."""
_SQLITE, _APPLICATION, _OURS = b"SQLite format 3\0", slice(68, 72), b"TRix"
"""The first bytes of an SQLite file, the byte range of its application id, and the application id of an index."""
_NOT_WRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_PAGE_BYTES = 4096
"""FTS5 writes blocks for pages of this size. A block of texts has many pages, of which the last is half empty."""
_FREE_SHARE = 0.05
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
                if _has_all(about, _expected(path, directory)):
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
    """Writes an index. The function `writing` yields the writer, and lets only one process write."""

    def __init__(self, path: Path, directory: Path, limits: IndexLimits = USUAL_LIMITS) -> None:
        self.path = path
        self._limits = limits
        self._expected = _expected(path, directory)
        self.is_new = not self._is_intact() or not self._has_expected_facts()
        if self.is_new:
            self._refuse_other_file()
        self._journal().unlink(missing_ok=True)  # of an interrupted transaction
        if self.is_new:  # the file is emptied in place, so that readers that have opened it notice this
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            self.path.chmod(0o600)
        self._connection = self._connected()
        self.tables = FactTables(self._connection, limits)
        if self.is_new:
            self._connection.execute(f"PRAGMA application_id={int.from_bytes(_OURS)}")
            self.tables.create()
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End the transaction, set the modification time of the file, and begin the next transaction."""
        self.tables.texts.flush()
        stamp = int(time.time()) // 2 * 2 * _SECOND
        values = {**self._expected, "time": str(stamp), "host": socket.gethostname()}
        self._connection.executemany("REPLACE INTO about VALUES (?, ?)", values.items())
        self._connection.execute("COMMIT")
        os.utime(self.path, ns=(stamp, stamp))
        self._connection.execute("BEGIN IMMEDIATE")

    def finish(self) -> None:
        """Commit, overwrite the tokens of deleted texts, and give free space back to the file system.

        Each transaction rewrites one table of words, or moves a limited number of pages.
        """
        self.commit()
        for _ in self.tables.texts.forget_deleted():
            self.commit()
        while self._pragma("freelist_count") > max(self._limits.free_pages, self._pragma("page_count") * _FREE_SHARE):
            for _ in range(self._limits.pages_at_once):
                self._connection.execute("PRAGMA incremental_vacuum(1)")  # `execute` takes one step, which is one page
            self.commit()

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def close(self) -> None:
        """Close the index. Changes since the last commit are lost."""
        self._connection.close()

    def _is_intact(self) -> bool:
        """Return whether an indexer was the last program that wrote to the file.

        If so, the file has no changes of an interrupted transaction, and the SQLite journal of that transaction may be
        deleted.
        """
        try:
            state = self.path.stat()
        except OSError:
            return False
        return state.st_size > 0 and state.st_mtime_ns % (2 * _SECOND) == 0

    def _has_expected_facts(self) -> bool:
        stamp = self.path.stat().st_mtime_ns
        with suppress(sqlite3.Error):
            uri = f"file:{quote(os.fsencode(self.path.absolute()))}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                about = _about(connection)
            return about.get("time") == str(stamp) and _has_all(about, self._expected)
        return False

    def _refuse_other_file(self) -> None:
        """Raise OSError if the file is not an index, because the writer would overwrite it.

        A file at the default path is treated as an index, unless it is a link.
        """
        if self.path.name == INDEX_NAME and not self.path.is_symlink():
            return
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            beginning = file.read(_APPLICATION.stop)
            if beginning and (not beginning.startswith(_SQLITE) or beginning[_APPLICATION] != _OURS):
                reason = "this file is not an index, and is not overwritten; delete it, or name another one"
                raise OSError(errno.EEXIST, reason, str(self.path))

    def _journal(self) -> Path:
        return self.path.with_name(self.path.name + "-journal")

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=60.0)
        if self.is_new:  # these two settings are written to the file
            connection.executescript(f"PRAGMA page_size={_PAGE_BYTES}; PRAGMA auto_vacuum=INCREMENTAL;")
        connection.executescript(
            "PRAGMA journal_mode=DELETE; PRAGMA secure_delete=ON; PRAGMA temp_store=MEMORY; "
            "PRAGMA cache_size=-65536; PRAGMA cache_spill=OFF; PRAGMA synchronous=NORMAL;"
        )
        return connection


@contextmanager
def writing(path: Path, directory: Path, limits: IndexLimits = USUAL_LIMITS) -> Iterator[IndexWriter]:
    """Yield the writer of an index.

    Wait while another process writes the index. Raises OSError if the index cannot be written.
    """
    try:
        with directory_lock(path.parent, wait=True), closing(IndexWriter(path, directory, limits)) as writer:
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


def _has_all(values: dict[str, str], expected: dict[str, str]) -> bool:
    return expected.items() <= values.items()


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
        "form": f"{_FORM} {__version__} {sqlite3.sqlite_version} {crc32(DICTIONARY)}",
        "prices": prices,
        "directory": "" if path.parent.resolve() == place else os.fsencode(place).hex(),
    }
