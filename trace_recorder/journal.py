"""The journal: an append-only file of records, one JSON object a line, one `write` a record.

    {"seq":17,"time":"2025-06-12T22:05:46.433797+00:00","kind":"llm_request","data":{…},"crc":"9f3a01bc"}

`crc` is the CRC-32 of the line's bytes before `,"crc"`. Invariants: a record is on the file whole before `append`
returns; nothing that was written is ever rewritten; a reader makes something of every byte sequence, passes over
what it cannot read, and counts it. What the records mean is not known here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from zlib import crc32

from trace_recorder.conversation import Payload
from trace_recorder.renaming import take_name

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # pragma: no cover - Windows has no advisory locks of this kind
    fcntl = None

BINARY = getattr(os, "O_BINARY", 0)
"""Windows opens files as text unless it is told not to."""
SCHEMA = "trace-recorder/journal"
VERSION = 1
_CRC_TAIL = len(',"crc":"00000000"}')
_LINE_BEGIN = '{"seq":'
_LINE_START = _LINE_BEGIN.encode()
_DAMAGED = "not a record, or its CRC does not match"
_TORN = "the file ends in the middle of a record"
_TRIES = 8
"""At how many places before an end a record may begin; more than one only where a record holds another."""
_MARK = re.compile(rb'\{"seq":\d+,"time":"[^"]*","kind":"|,"crc":"[0-9a-f]{8}"\}')
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')


def now() -> str:
    """The time as records state it: ISO 8601, UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a journal. `offset` and `length` say where it stands in the file, in bytes, without the newline."""

    seq: int
    time: str
    kind: str
    data: dict[str, Payload]
    crc: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class BadLine:
    """Bytes that are no record: where they stand, how many, why, and whether they are a torn end of the file."""

    offset: int
    length: int
    why: str
    torn: bool


class Journal:
    """The writer of one journal file, which it holds locked for its lifetime."""

    def __init__(self, fd: int, path: Path, *, sync: bool = False) -> None:
        self.path = path
        self.next_seq = 1
        self._fd = fd
        self.sync = sync
        self._torn = False
        self._pid = os.getpid()

    @classmethod
    def create(cls, path: Path, *, sync: bool = False) -> Journal:
        """Create `path` exclusively, locked from the moment at which it can be seen.

        Raises FileExistsError where the name is taken. With `sync`, the directory entry is on disk on return.
        """
        temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | BINARY, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            take_name(temporary, path)
        except BaseException:
            os.close(fd)
            raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
        if sync:
            sync_directory(path.parent)
        return cls(fd, path, sync=sync)

    def append(self, kind: str, data: str, time: str) -> tuple[int, int]:
        """Write one record and return its (seq, crc); `data` is its JSON text, on one line.

        On return the record has left the process: it survives `kill -9`; with `sync`, power loss. Raises OSError
        where the system refuses; the file then ends as it did before, or its torn end is closed by the next record.
        """
        seq = self.next_seq
        if _LINE_BEGIN in data:  # what somebody said must not look like a record, whatever becomes of this line
            data = data.replace(_LINE_BEGIN, "{ " + _LINE_BEGIN[1:])
        head = f'{{"seq":{seq},"time":"{time}","kind":"{kind}","data":{data}'.encode()
        crc = crc32(head)
        self.next_seq = seq + 1  # before the write: Ctrl-C behind it must not give one number twice
        try:
            self._write(b'%s,"crc":"%08x"}\n' % (head, crc))
        except OSError:
            self.next_seq = seq
            raise
        return seq, crc

    def _write(self, line: bytes) -> None:
        if self._torn:
            line = b"\n" + line
        before = self.size
        try:
            written = os.write(self._fd, line)
            if written == len(line) and self.sync:
                os.fsync(self._fd)
        except OSError:
            self._repair(before)
            raise
        if written != len(line):
            self._repair(before)
            raise OSError(f"only {written} of {len(line)} bytes of a record could be written to {self.path}")
        self._torn = False

    def _repair(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            self._torn = True

    @property
    def size(self) -> int:
        """The bytes that have been written; asked of the system, which Ctrl-C cannot interrupt half way."""
        return os.fstat(self._fd).st_size

    def is_in_place(self) -> bool:
        """Whether the file still has its name: it may have been moved or removed, and another taken its place."""
        return self._fd >= 0 and _is_named(self.path, self._fd)

    def discard_if_empty(self) -> None:
        """Remove the file, if nothing was ever written to it, and it is open, in the process that made it."""
        if self._fd >= 0 and self.size == 0 and self._pid == os.getpid():
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            self.close()

    def close(self) -> None:
        """Close the file and give up its lock. Closing twice is harmless."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


def sync_directory(directory: Path) -> None:
    """Have the directory's entries on disk, so that a new or renamed file survives power loss."""
    if os.name == "nt":  # Windows has no handle of a directory to flush
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read(data: bytes, base: int = 0) -> Iterator[Record | BadLine]:
    """Yield every record of a journal's bytes, which stand at `base` in the file, and what is between as `BadLine`."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        torn = end < 0
        line = data[start:] if torn else data[start:end]
        if line:
            yield from _read_line(line, base + start, torn=torn)
        start += len(line) + 1


def _read_line(line: bytes, offset: int, *, torn: bool) -> Iterator[Record | BadLine]:
    record = _parse(line, offset)
    if record is not None:
        yield record
    else:
        yield from _salvage(line, offset, torn=torn)


def _salvage(line: bytes, offset: int, *, torn: bool) -> Iterator[Record | BadLine]:
    """Read a damaged line: a record welded onto a torn one, or onto a block of NULs, is whole in itself."""
    begins: deque[int] = deque(maxlen=_TRIES)
    passed = 0
    tries = 0
    for mark in _MARK.finditer(line):
        if mark[0].startswith(_LINE_START):
            begins.append(mark.start())
            continue
        for begin in reversed(begins) if tries < 1000 else ():
            record = _parse(line[begin : mark.end()], offset + begin)
            if record is not None:
                if begin > passed:
                    yield BadLine(offset + passed, begin - passed, _DAMAGED, torn=False)
                yield record
                passed = mark.end()
                begins.clear()
                break
            tries += 1
    if passed < len(line):
        yield BadLine(offset + passed, len(line) - passed, _TORN if torn else _DAMAGED, torn)


def _parse(line: bytes, offset: int) -> Record | None:
    """Read one line, or return None where it is no record or its CRC does not match."""
    tail = _CRC.search(line, max(0, len(line) - _CRC_TAIL))
    if tail is None or not line.startswith(_LINE_START):
        return None
    crc = int(tail[1], 16)
    if crc32(memoryview(line)[: tail.start()]) != crc:
        return None
    try:
        fields = json.loads(line)
        record = Record(fields["seq"], fields["time"], fields["kind"], fields["data"], crc, offset, len(line))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if isinstance(record.data, dict) and isinstance(record.kind, str) else None


def writer_is_alive(path: Path, host: str | None) -> bool | None:
    """Whether a journal's writer still runs: by its lock, on its own host; None where that cannot be known."""
    return writer_holds(path) if host == socket.gethostname() else None


def writer_holds(path: Path) -> bool | None:
    """Whether a process of this host holds the lock of a journal; None where that cannot be known."""
    if fcntl is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(fd)


def _is_named(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))  # noqa: PTH116 - on the path of every record
    except OSError:
        return False


@contextlib.contextmanager
def held(path: Path) -> Iterator[bool]:
    """Hold the lock of a journal whose writer is gone; False where another holds it. What is not there is free."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            if fcntl is not None:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield _is_named(path, fd)  # it may have been moved, and another taken its place, before the lock was had
    finally:
        os.close(fd)
