"""The journal: an append-only file of records, one JSON object a line.

    {"seq":17,"time":"2025-06-12T22:05:46.433797+00:00","kind":"llm_request","data":{…},"crc":"9f3a01bc"}

`crc` is the CRC-32 of the line's bytes before `,"crc"`. Invariants: a record is on the file whole before `append`
returns; nothing that was written is ever rewritten; a reader makes something of every byte sequence, passes over
what it cannot read, and counts it. What the records mean is not known here.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from zlib import crc32

from trace_recorder.storage.atomic_rename import rename_exclusive
from trace_recorder.storage.file_descriptor import Descriptor, close_ignoring_errors
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, check_depth
from trace_recorder.values.messages import Payload

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # pragma: no cover - Windows has no advisory locks of this kind
    fcntl = None

BINARY = getattr(os, "O_BINARY", 0)
"""Windows opens files as text unless it is told not to."""
logger = logging.getLogger("trace_recorder")
SCHEMA = "trace-recorder/journal"
VERSION = 1
UNSUPPORTED = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL})
"""What a file system answers that does not have what is asked for: a lock, or the flushing of a directory."""
_CRC_LENGTH = len(',"crc":"00000000"}')
_LINE_BEGIN = '{"seq":'
_LINE_START = _LINE_BEGIN.encode()
_WHY_DAMAGED = "not a record, or its CRC does not match"
_WHY_TORN = "the file ends in the middle of a record"
_COPY_BYTES = 1 << 20
"""How many bytes are copied at once."""
_MAX_STARTS = 8
"""At how many places before an end a record may begin; more than one only where a record holds another."""
_BOUNDARY = re.compile(rb'\{"seq":\d+,"time":"[^"]*","kind":"|,"crc":"[0-9a-f]{8}"\}')
_decode = json.JSONDecoder().raw_decode
_CRC_AT_END = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')


class Record(NamedTuple):
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


Data = str | Callable[[Sequence[int]], str]
"""A record's data as JSON text, on one line; or a function that makes it, from the CRCs of those written with it."""

PendingWrite = tuple[int, int, list[bytes]]
"""A write that has not returned yet: its first `seq`, where the file ended before it, and its lines."""


class Journal:
    """The writer of one journal file, which it holds locked for its lifetime. Not thread-safe."""

    def __init__(self, fd: int, path: Path, *, sync: bool = False) -> None:
        self.path = path
        self.next_seq = 1
        self._file: Descriptor | None = Descriptor(fd)
        self._closed: Descriptor | None = None
        self.sync = sync
        self._torn = False
        self._end = -1
        self._pending: PendingWrite | None = None
        self._pid = os.getpid()

    @classmethod
    def create(cls, path: Path, *, sync: bool = False) -> Journal:
        """Create `path` exclusively, locked from the moment at which it can be seen.

        Raises FileExistsError where the name is taken. With `sync`, the directory entry is on disk on return.
        """
        return cls(_create_locked(path, lambda _: None, sync=sync), path, sync=sync)

    def append(self, kind: str, data: str, time: str) -> tuple[int, int]:
        """Write one record, as `append_all` does, and return its (seq, crc)."""
        return self.append_all([(kind, data)], time)

    def append_all(self, records: Sequence[tuple[str, Data]], time: str) -> tuple[int, int]:
        """Write records, each a kind and its data, with one `write`, and return the (seq, crc) of the last.

        On return they have left the process: they survive `kill -9`; with `sync`, power loss. Raises OSError where
        the system refuses; the file then ends as it did before, or its torn end is closed by the next record.
        """
        while True:
            fd = self._writable_fd()
            self._resolve_pending_write()
            seq, before = self.next_seq, self._end if self._end >= 0 else self.size
            crcs: list[int] = []
            lines = list(_encode_lines(records, seq, time, crcs))
            if self._torn:
                lines[0] = b"\n" + lines[0]
            text = lines[0] if len(lines) == 1 else b"".join(lines)
            pending, length, count = (seq, before, lines), len(text), len(lines)
            written = 0
            if self.next_seq == seq:  # else a signal's handler, or the garbage collector, recorded something meanwhile
                break
        try:  # from here to the write there is no call, at whose end Python would look for signals
            self._pending, self.next_seq = pending, seq + count
            written = os.write(fd, text)
            if written != length:
                what = f"only {written} of {length} bytes of a record could be written to {self.path}"
                raise OSError(what)  # noqa: TRY301 - it is handled as the system's own
            if self.sync:
                sync_file(fd)
        except OSError:
            self._undo_failed_write(pending, written)
            raise
        if self._pending is pending:  # else a handler has settled it, and recorded something behind it
            self._torn, self._pending, self._end = False, None, before + length
        return seq + count - 1, crcs[-1]

    def _undo_failed_write(self, pending: PendingWrite, written: int) -> None:
        """Cut off what was written last, which may stand elsewhere than was thought: others may have cut the file."""
        with contextlib.suppress(OSError):
            before, number = self.size - written, self._open.number
            moved = (pending[0], before, pending[2])
            if self._pending is pending:
                self._pending = moved
                os.ftruncate(number, before)
        with contextlib.suppress(OSError):
            self._resolve_pending_write()

    def _resolve_pending_write(self) -> None:
        """Ask the system what became of a write that did not return: an error or Ctrl-C may have come with it."""
        pending = self._pending
        if pending is None:
            return
        seq, before, lines = pending
        end = self.size
        left = end - before
        whole = 0
        while whole < len(lines) and left >= len(lines[whole]) - 1:  # whole it is without its newline too
            left -= len(lines[whole])
            whole += 1
        torn = left != 0 or (self._torn and whole == 0)
        if self._pending is pending:  # else a handler has settled it; from here on there is no call
            self._torn, self._end = torn, end
            self.next_seq = seq + whole  # what is not whole is no record, and there must be no hole
            self._pending = None

    @property
    def size(self) -> int:
        """The bytes that have been written; asked of the system, which Ctrl-C cannot interrupt half way."""
        return self._open.stat().st_size

    @property
    def _open(self) -> Descriptor:
        if self._file is None:
            raise OSError(errno.EBADF, "the journal has been closed", str(self.path))
        return self._file

    def _writable_fd(self) -> int:
        """The number to write to; where somebody has closed it, the file is opened again."""
        file = self._open
        if not file.is_ours():
            self._file = file = self._open_by_name(file)
            warn_once("somebody closed the descriptor of a journal (os.closerange does); it has been opened again")
        return file.number

    def _open_by_name(self, file: Descriptor) -> Descriptor:
        """Open this file by its name, and lock it. Raises OSError, also where another file has the name by now."""
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | BINARY)
        if not file.is_file_of(os.fstat(fd)):
            close_ignoring_errors(fd)
            raise FileNotFoundError(f"the descriptor of {self.path} was closed, and another file has its name")
        lock(fd)
        return Descriptor(fd)

    @property
    def end(self) -> int:
        """Where the last record ends, in bytes; -1 where that is not known for sure."""
        return self._end

    def is_in_place(self) -> bool:
        """Whether the file still has its name: it may have been moved or removed, and another taken its place."""
        return self._file is not None and _is_named(self.path, self._file)

    def is_removed(self) -> bool:
        """Whether the file has no name at all any more: it is gone when it is closed."""
        try:
            return self._file is not None and self._file.stat().st_nlink == 0
        except OSError:  # the descriptor is another's: the file is opened again before it is written to
            return False

    def recreate(self) -> None:
        """Give a removed file its name again, with all that was ever written to it. Raises OSError where it cannot.

        Raises FileExistsError where another has taken the name.
        """
        if self.path.exists():  # asked before everything is copied
            raise FileExistsError(f"{self.path} was removed, and another file has its name")
        old = self._open
        self._file = Descriptor(_create_locked(self.path, self._copy_to, sync=self.sync))
        with contextlib.suppress(OSError):
            old.close()  # all of it has been copied

    def _copy_to(self, fd: int) -> None:
        at, size = 0, self.size
        while at < size:
            at += os.write(fd, os.pread(self._open.number, min(size - at, _COPY_BYTES), at))
        if self.sync:
            sync_file(fd)

    def discard_if_empty(self) -> None:
        """Remove the file, if nothing was ever written to it, and it is open, in the process that made it."""
        if self._file is not None and self._pid == os.getpid() and self._file.is_ours() and self.size == 0:
            if self.is_in_place():
                with contextlib.suppress(FileNotFoundError):
                    self.path.unlink()
            with contextlib.suppress(OSError):
                self.close()

    def close(self) -> None:
        """Close the file and give up its lock. Closing twice is harmless.

        Raises OSError where the system says only now that it could not write all of it, as on NFS.
        """
        file, self._file = self._file, None
        if file is not None:
            self._closed = file
            file.close()

    def reopen(self) -> None:
        """Open a file again that was closed, to write more. Raises OSError, also where another has its name by now."""
        if self._file is None and self._closed is not None:
            self._file = self._open_by_name(self._closed)


def _encode_lines(records: Iterable[tuple[str, Data]], seq: int, time: str, crcs: list[int]) -> Iterator[bytes]:
    """The lines of records from `seq` on; the CRC of each is added to `crcs`."""
    for kind, data in records:
        text = data if isinstance(data, str) else data(crcs)
        if _LINE_BEGIN in text:  # what somebody said must not look like a record, whatever becomes of this line
            text = text.replace(_LINE_BEGIN, "{ " + _LINE_BEGIN[1:])
        line = f'{{"seq":{seq + len(crcs)},"time":"{time}","kind":"{kind}","data":{text}'.encode()
        crcs.append(crc32(line))
        yield b'%s,"crc":"%08x"}\n' % (line, crcs[-1])


def _create_locked(path: Path, fill: Callable[[int], None], *, sync: bool) -> int:
    """Create a file exclusively, locked and filled before it can be seen."""
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | BINARY, 0o600)
    try:
        lock(fd)
        fill(fd)
        rename_exclusive(temporary, path)
    except BaseException:
        close_ignoring_errors(fd)
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    if sync:
        sync_directory(path.parent)
    return fd


def sync_directory(directory: Path) -> None:
    """Have the directory's entries on disk, so that a new or renamed file survives power loss."""
    if os.name == "nt":  # Windows has no handle of a directory to flush
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        sync_file(fd)
    finally:
        close_ignoring_errors(fd)


def sync_file(fd: int) -> None:
    """Have a file, or a directory, on disk; where its file system cannot do that, say so once and go on."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system cannot be told to write to the disk at once ({error.strerror})")


def lock(fd: int, *, shared: bool = False) -> bool | None:
    """Lock a journal; False where another process holds it, None where its file system has no locks."""
    if fcntl is None:  # pragma: no cover - Windows has no advisory locks of this kind
        return None
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        warn_once(f"this file system has no locks ({error.strerror}): whether a run goes on cannot be known from them")
        return None
    return True


_warned: set[str] = set()


def warn_once(what: str) -> None:
    """Log what this system does not offer, once a process: recording goes on without."""
    if what not in _warned:
        _warned.add(what)
        logger.warning("%s", what)


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
    record = _parse_record(line, offset)
    if record is not None:
        yield record
    else:
        yield from _read_damaged_line(line, offset, torn=torn)


def _read_damaged_line(line: bytes, offset: int, *, torn: bool) -> Iterator[Record | BadLine]:
    """Read a damaged line: a record welded onto a torn one, or onto a block of NULs, is whole in itself."""
    begins: deque[int] = deque(maxlen=_MAX_STARTS)
    passed = 0
    tries = 0
    for mark in _BOUNDARY.finditer(line):
        if mark[0].startswith(_LINE_START):
            begins.append(mark.start())
            continue
        for begin in reversed(begins) if tries < 1000 else ():
            record = _parse_record(line[begin : mark.end()], offset + begin)
            if record is not None:
                if begin > passed:
                    yield BadLine(offset + passed, begin - passed, _WHY_DAMAGED, torn=False)
                yield record
                passed = mark.end()
                begins.clear()
                break
            tries += 1
    if passed < len(line):
        yield BadLine(offset + passed, len(line) - passed, _WHY_TORN if torn else _WHY_DAMAGED, torn)


def _parse_record(line: bytes, offset: int) -> Record | None:
    """Read one line, or return None where it is no record or its CRC does not match."""
    tail = _CRC_AT_END.search(line, max(0, len(line) - _CRC_LENGTH))
    if tail is None or not line.startswith(_LINE_START):
        return None
    crc = int(tail[1], 16)
    if crc32(memoryview(line)[: tail.start()]) != crc:
        return None
    try:
        text = line.decode("utf-8", "surrogatepass")
        check_depth(text, MAX_DOCUMENT_DEPTH)
        fields, _ = _decode(text)
        record = Record(fields["seq"], fields["time"], fields["kind"], fields["data"], crc, offset, len(line))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if isinstance(record.data, dict) and isinstance(record.kind, str) else None


def writer_is_alive(path: Path, host: str | None) -> bool | None:
    """Whether a journal's writer still runs: by its lock, on its own host; None where that cannot be known."""
    return is_locked(path) if host == socket.gethostname() else None


def is_locked(path: Path) -> bool | None:
    """Whether a process of this host holds the lock of a journal; None where that cannot be known."""
    if fcntl is None:
        return None
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        free = lock(fd, shared=True)
    except OSError:
        return None
    finally:
        close_ignoring_errors(fd)
    return None if free is None else not free


def _is_named(path: Path, file: Descriptor) -> bool:
    try:
        return file.is_file_of(os.stat(path))  # noqa: PTH116 - on the path of every record
    except OSError:
        return False


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a journal whose writer is gone; False where another holds it. What is not there is free."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        had = lock(fd)
        if had is None and fcntl is not None:  # of a run without locks it is known only whether it has its end on file
            had = any(isinstance(one, Record) and one.kind == "finalize" for one in read(path.read_bytes()))
        # it may have been moved, and another taken its place, before the lock was had
        yield had is not False and _is_named(path, Descriptor(fd))
    finally:
        close_ignoring_errors(fd)
