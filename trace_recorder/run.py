"""One open run: where its facts are written.

Everything that is recorded passes through `append` or `append_body`: one lock, one redaction, one journal, and then
the document. What the agent meant by a call is the recorder's; what went over the wire is capture's. A run belongs
to the process that opened it.
"""

from __future__ import annotations

import itertools
import os
import platform
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path

from trace_recorder.conversation import known
from trace_recorder.errors import AlreadyFinalizedError
from trace_recorder.guard import Guard
from trace_recorder.items import ItemEncoder
from trace_recorder.journal import SCHEMA, VERSION, Journal, now
from trace_recorder.plain import members, to_json
from trace_recorder.redact import Redaction, default_redactor
from trace_recorder.snapshot import Snapshot, Writer

PARENT_VARIABLE = "TRACE_RECORDER_PARENT"
"""The environment variable by which a process tells its children the id of its trajectory."""

UNDER_WAY = frozenset({"llm_request", "llm_stream"})
"""Kinds of records after which something more is to come at once."""

_STARTED = time.time()


class Run:
    """The open files of one run, and the one way into them. Methods raise what the system raises: guard them."""

    def __init__(self, journal: Journal, document: Path, redaction: Redaction, guard: Guard, *, history: str) -> None:
        self.trajectory_id = uuid.uuid4().hex
        self.guard = guard
        self.pid = os.getpid()
        self.began = time.perf_counter()
        self.closed = False
        self.abandoned = False
        self._begin: tuple[str, str] | None = None
        self._journal = journal
        self._redaction = redaction
        self._lock = threading.RLock()
        self._items = ItemEncoder(self._append)
        self._numbers = itertools.count(1)
        self._later: deque[Callable[[], None]] = deque()
        snapshot = Snapshot(journal.path, document, history, sync=journal.sync, in_place=journal.is_in_place)
        self._writer = Writer(snapshot, self._guarded)

    def start(self, about: Mapping[str, object], said: Mapping[str, object], parent: str | None) -> None:
        """Write the first record: the schema, where this runs, and what the caller says of the run."""
        where = {
            "schema": SCHEMA,
            "version": VERSION,
            "trajectory_id": self.trajectory_id,
            "host": socket.gethostname(),
            "pid": self.pid,
            "process_start": _STARTED,
            "recorder": _version(),
            "python": platform.python_version(),
            "platform": sys.platform,
            **known(parent=parent or os.environ.get(PARENT_VARIABLE)),
        }
        self._begin = members(where | dict(about)), members(said)
        with self._lock:
            self._be_open()
        self._writer.recorded()

    def append(self, kind: str, about: Mapping[str, object], said: str = "") -> None:
        """Write one record, then the document.

        `about` is what the recorder itself says of it: ids, times, counts. `said` is what anybody else said, in
        which secrets are masked: JSON text of further members, without braces.
        """
        with self._lock:
            self._be_open()
            self._append(kind, members(about), said)
        self._settle()
        self._writer.recorded(under_way=kind in UNDER_WAY)

    def append_body(self, kind: str, about: Mapping[str, object], said: str, body: bytes) -> None:
        """Write one record whose JSON `body` is taken apart into items. Raises NotJsonError where it is no object."""
        with self._lock:
            self._be_open()
            encoded = self._items.encode(body)
            said = f'{said},"body":{encoded.body}' if said else f'"body":{encoded.body}'
            seq, _ = self._append(kind, f'{members(about)},"items":{encoded.items},"check":{encoded.check}', said)
            encoded.written(seq)
        self._settle()
        self._writer.recorded(under_way=kind in UNDER_WAY)

    def later(self, record: Callable[[], None]) -> None:
        """Have something recorded behind the next record, or at the end: it came in the middle of one."""
        self._later.append(record)

    def _settle(self) -> None:
        while self._later:
            self._later.popleft()()

    def _be_open(self) -> None:
        if self.closed:
            raise AlreadyFinalizedError("the run that this belongs to has been finalized")
        if self._begin is not None:  # it is the first record, whenever a record can be written
            self._append("start", *self._begin)
            self._begin = None
        self._write_gaps()

    def _append(self, kind: str, about: str, said: str) -> tuple[int, int]:
        data = f"{{{about},{self._redaction.mask(said)}}}" if said else f"{{{about}}}"
        return self._journal.append(kind, data, now())

    def _write_gaps(self) -> None:
        failures = self.guard.failures
        while failures:
            failure = failures[0]
            gap = {"time": failure.time, "what": failure.what, "why": default_redactor(failure.why)}
            self._journal.append("gap", to_json(gap), now())  # past the redactors, one of which may be what failed
            failures.popleft()

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on wherever they appear."""
        self._redaction.learn(secrets)

    def mask_stream(self, text: str) -> str:
        """Mask a part of a stream's text."""
        return self._redaction.mask_stream(text)

    def next_id(self) -> str:
        """A new interaction id, unique in this run."""
        return f"llm_{next(self._numbers)}"

    def save(self) -> None:
        """Write the document now."""
        self._writer.save()

    def _guarded(self, write: Callable[[], None]) -> None:
        with self.guard("write the document"):
            write()

    def finish(self, about: Mapping[str, object], said: Mapping[str, object] | None = None) -> None:
        """Write the last record and the last snapshot, and close. What is recorded later is not of this run."""
        self._settle()
        with self._lock:
            if self.closed:
                return
            self.closed = True
            with self.guard("record the end of the run"):
                if self._begin is not None:
                    self._append("start", *self._begin)
                self._write_gaps()
                timed = {**about, "execution_time": round(time.perf_counter() - self.began, 6)}
                self._append("finalize", members(timed), members(said or {}))
        self._writer.close()
        self._journal.close()

    def abandon(self) -> None:
        """Leave the files to the process that this one was forked from: nothing is written, no lock given up."""
        self.closed = self.abandoned = True
        self._journal.close()


def _version() -> str:
    """The version of this package: readers are mended, and old files say by which they were written."""
    metadata = import_module("importlib.metadata")  # slow to import, and not needed before a run begins
    try:
        return str(metadata.version("trace-recorder"))
    except metadata.PackageNotFoundError:
        return "unknown"
