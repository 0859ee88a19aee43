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
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path

from trace_recorder.conversation import Payload, known
from trace_recorder.errors import AlreadyFinalizedError
from trace_recorder.guard import Guard
from trace_recorder.items import ItemEncoder
from trace_recorder.journal import SCHEMA, VERSION, Journal, now
from trace_recorder.plain import members, plain, to_json
from trace_recorder.redact import Redaction
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

    def append(self, kind: str, about: Mapping[str, object], said: str = "", redacted: int = 0) -> None:
        """Write one record, then the document.

        `about` is what the recorder itself says of it: ids, times, counts. `said` is what anybody else said, in
        which secrets are masked: JSON text of further members, without braces. `redacted` is how many secrets are
        masked in it already.
        """
        with self._lock:
            self._be_open()
            self._append(kind, members(about), said, redacted)
        self._writer.recorded(under_way=kind in UNDER_WAY)

    def append_body(self, kind: str, about: Mapping[str, object], said: str, body: bytes) -> None:
        """Write one record whose JSON `body` is taken apart into items. Raises NotJsonError where it is no object."""
        with self._lock:
            self._be_open()
            encoded = self._items.encode(body)
            said = f'{said},"body":{encoded.body}' if said else f'"body":{encoded.body}'
            seq, _ = self._append(kind, f'{members(about)},"items":{encoded.items},"check":{encoded.check}', said)
            encoded.written(seq)
        self._writer.recorded(under_way=kind in UNDER_WAY)

    def _be_open(self) -> None:
        if self.closed:
            raise AlreadyFinalizedError("the run that this belongs to has been finalized")
        if self._begin is not None:  # it is the first record, whenever a record can be written
            self._append("start", *self._begin)
            self._begin = None
        self._write_gaps()

    def _append(self, kind: str, about: str, said: str, redacted: int = 0) -> tuple[int, int]:
        masked, count = self._redaction.mask(said)
        parts = (about, f'"redacted":{count + redacted}' if count + redacted else "", masked)
        return self._journal.append(kind, f"{{{','.join(filter(None, parts))}}}", now())

    def _write_gaps(self) -> None:
        failures = self.guard.failures
        while failures:
            failure = failures[0]
            what, why = self._redaction.mask_gap(failure.what), self._redaction.mask_gap(failure.why)
            gap = {"time": failure.time, "what": what, "why": why}
            self._journal.append("gap", to_json(gap), now())  # past the redactors, one of which may be what failed
            failures.popleft()

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on wherever they appear."""
        self._redaction.learn(secrets)

    def mask_stream(self, text: str) -> tuple[str, int]:
        """Mask a part of a stream's text; return it with the number of secrets that were in it."""
        return self._redaction.mask_stream(text)

    def named(self, **names: object) -> dict[str, Payload]:
        """Copy names that the user gave, which are no business of a redactor's, without the secrets in them."""
        return {
            name: self._redaction.mask_name(value) if isinstance(value, str) else value
            for name, value in ((name, plain(value)) for name, value in names.items())
        }

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
