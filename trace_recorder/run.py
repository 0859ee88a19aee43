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
from trace_recorder.guard import Guard, attempt
from trace_recorder.items import ItemEncoder
from trace_recorder.journal import SCHEMA, VERSION, Journal, now
from trace_recorder.plain import members, plain, to_json
from trace_recorder.redact import Redaction, masks_in
from trace_recorder.snapshot import Snapshot, Writer

PARENT_VARIABLE = "TRACE_RECORDER_PARENT"
"""The environment variable by which a process tells its children the id of its trajectory."""

UNDER_WAY = frozenset({"llm_request", "llm_stream"})
"""Kinds of records after which something more is to come at once."""

_NOTHING_BEGUN = '"task":null,"metadata":{}'
_NOTHING_ENDED = '"final_result":null'
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
        self._begin: tuple[str, str, int] | None = None
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
        about, redacted = _counted(about)
        self._begin = members(where | about), members(said), redacted
        with self._lock:
            self._be_open()
        self._writer.recorded()

    def append(self, kind: str, about: Mapping[str, object], said: str = "") -> None:
        """Write one record, then the document.

        `about` is what the recorder itself says of it: ids, times, counts, and as `redacted` how many secrets it has
        masked already. `said` is what anybody else said, in which secrets are masked: JSON text of further members,
        without braces.
        """
        about, redacted = _counted(about)
        with self._lock:
            self._be_open()
            self._append(kind, members(about), said, redacted)
        self._writer.recorded(under_way=kind in UNDER_WAY)

    def append_body(self, kind: str, about: Mapping[str, object], said: str, body: bytes) -> None:
        """Write one record whose JSON `body` is taken apart into items. Raises NotJsonError where it is no object."""
        about, redacted = _counted(about)
        with self._lock:
            self._be_open()
            encoded = self._items.encode(body)
            said = f'{said},"body":{encoded.body}' if said else f'"body":{encoded.body}'
            stands = f'{members(about)},"items":{encoded.items},"check":{encoded.check}'
            seq, _ = self._append(kind, stands, said, redacted)
            encoded.written(seq)
        self._writer.recorded(under_way=kind in UNDER_WAY)

    def _be_open(self) -> None:
        if self.closed:
            raise AlreadyFinalizedError("the run that this belongs to has been finalized")
        if self._begin is not None:  # it is the first record, whenever a record can be written
            self._append_surely("start", *self._begin, _NOTHING_BEGUN)
            self._begin = None
        self._write_gaps()

    def _append(self, kind: str, about: str, said: str, redacted: int = 0) -> tuple[int, int]:
        masked, count = self._redaction.mask(said)
        return self._write(kind, about, masked, count + redacted)

    def _append_surely(self, kind: str, about: str, said: str, redacted: int, nothing: str) -> None:
        """Write a record that the file cannot do without: where what was said cannot be masked, without that."""

        def unmasked(error: Exception) -> tuple[str, int]:
            if self.guard.strict:
                raise error
            self.guard.note(f"mask what the {kind} record says", error)
            return nothing, 0

        masked, count = attempt(lambda: self._redaction.mask(said), unmasked)
        self._write(kind, about, masked, count + redacted)

    def _write(self, kind: str, about: str, said: str, redacted: int) -> tuple[int, int]:
        parts = (about, f'"redacted":{redacted}' if redacted else "", said)
        return self._journal.append(kind, f"{{{','.join(filter(None, parts))}}}", now())

    def _write_gaps(self) -> None:
        failures = self.guard.failures
        while failures:
            failure = failures[0]
            what, why = self._redaction.mask_gap(failure.what), self._redaction.mask_gap(failure.why)
            masked = masks_in(failure.what, what) + masks_in(failure.why, why)
            gap = {"time": failure.time, **known(redacted=masked or None), "what": what, "why": why}
            self._journal.append("gap", to_json(gap), now())
            failures.popleft()

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these values from now on wherever they appear."""
        self._redaction.learn(secrets)

    def mask_stream(self, text: str) -> tuple[str, int]:
        """Mask a part of a stream's text; return it with the number of secrets that were in it."""
        return self._redaction.mask_stream(text)

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask what is no text; a text is left as it is, to be masked when it is written."""
        return self._redaction.mask_bytes(data)

    def unfinished(self, data: bytes) -> int:
        """How many bytes at the end of a part of a stream are to be written with the next one."""
        return self._redaction.unfinished(data)

    def named(self, **names: object) -> dict[str, Payload]:
        """Copy names that the user gave, which are no business of a redactor's, without the secrets in them."""
        copied = {name: plain(value) for name, value in names.items()}
        texts = {name: value for name, value in copied.items() if isinstance(value, str)}
        masked = {name: self._redaction.mask_name(text) for name, text in texts.items()}
        count = sum(masks_in(text, masked[name]) for name, text in texts.items())
        return copied | masked | known(redacted=count or None)

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
                    self._append_surely("start", *self._begin, _NOTHING_BEGUN)
                self._write_gaps()
                timed = {**about, "execution_time": round(time.perf_counter() - self.began, 6)}
                self._append_surely("finalize", members(timed), members(said or {}), 0, _NOTHING_ENDED)
                self._write_gaps()
        self._writer.close()
        self._journal.close()

    def abandon(self) -> None:
        """Leave the files to the process that this one was forked from: nothing is written, no lock given up."""
        self.closed = self.abandoned = True
        self._journal.close()


def _counted(about: Mapping[str, object]) -> tuple[dict[str, object], int]:
    """What is said about a record, and how many secrets are masked in it."""
    said = dict(about)
    redacted = said.pop("redacted", 0)
    return said, redacted if isinstance(redacted, int) else 0


def _version() -> str:
    """The version of this package: readers are mended, and old files say by which they were written."""
    metadata = import_module("importlib.metadata")  # slow to import, and not needed before a run begins
    try:
        return str(metadata.version("trace-recorder"))
    except metadata.PackageNotFoundError:
        return "unknown"
