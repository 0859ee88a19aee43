"""Every place at which recording touches a call, and a way to make each fail.

`gaps` are the gaps that are then recorded for each kind of call. A kind that does not pass the place leaves none. If no
run is known yet, the failure is only counted and logged.

Only in this folder, tests patch our own functions, because most of these failures are bugs that do not exist, which no
file, provider or system call could cause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.isolation.outcomes import KINDS
from tests.limits import limited
from trace_recorder import TrajectoryRecorder, guard
from trace_recorder.attach.lifecycle import Lifecycle
from trace_recorder.background_work import background_threads
from trace_recorder.capture import attempt_records, exchange, stream_flusher, transport
from trace_recorder.capture.received_response import ReceivedResponse
from trace_recorder.guard import Guard
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.live_document.document_thread import process_thread
from trace_recorder.reading.live_document.whole_document import WholeDocument
from trace_recorder.recording.limits import Limits
from trace_recorder.recording.run import Run
from trace_recorder.storage import stream_chunks
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.redaction.redactor import Redaction

Payload = Any
Break = Callable[[pytest.MonkeyPatch], None]


class BrokenError(Exception):
    """An exception that only tests raise."""


def fail(*_: object, **__: object) -> Payload:
    """Raise a `BrokenError`."""
    raise BrokenError("on purpose")


def failing(owner: object, name: str, instead: Payload = fail) -> Break:
    """Replace a function or method by one that fails."""
    return lambda patch: patch.setattr(owner, name, instead)


def together(*breaks: Break) -> Break:
    """Apply several patches."""

    def both(patch: pytest.MonkeyPatch) -> None:
        for one in breaks:
            one(patch)

    return both


def once_asked(broken: Break) -> Break:
    """Apply a patch as soon as the request is on file."""
    write_request = attempt_records.AttemptRecords.write_request

    def later(patch: pytest.MonkeyPatch) -> None:
        def written(self: attempt_records.AttemptRecords, context: Mapping[str, Payload]) -> None:
            write_request(self, context)
            broken(patch)

        patch.setattr(attempt_records.AttemptRecords, "write_request", written)

    return later


def no_threads_of_ours(patch: pytest.MonkeyPatch) -> None:
    """Let no thread of the recorder start, as if the process had reached its limit."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("trace_recorder"):
            fail()
        start(thread)

    patch.setattr(threading.Thread, "start", refuse)
    stream_flusher.process_flusher.after_fork()  # in a process whose threads were not started
    process_thread.after_fork()
    background_threads.after_fork()


def thread_is_quick(patch: pytest.MonkeyPatch) -> None:
    """Let the thread write a document before the call returns."""
    patch.setattr(process_thread, "wake", lambda: [one.write_in_thread() for one in [*process_thread.waiting]])
    patch.setattr(process_thread, "is_idle", True)


def beat_once(response: ReceivedResponse) -> None:
    """Flush a response when it is first watched. It is watched again after that, and is not flushed again."""
    if not vars(response).setdefault("beaten", False):
        vars(response)["beaten"] = True
        response.write_pending()


def fresh_guard(patch: pytest.MonkeyPatch) -> None:
    """Forget which failures were logged for calls that belong to no run."""
    patch.setattr(exchange, "guard", Guard())


@dataclass(frozen=True)
class Hook:
    """A place in the code that fails: how to make it fail, and the gaps that this causes."""

    breaks: Break
    gaps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    raises: bool = True
    """Whether a strict recorder raises the failure for the caller."""
    flush_bytes: int = Limits().flush_bytes
    has_begun: bool = True
    """Whether the run has begun before. Otherwise the call begins it."""

    def recorder(self, path: Path, *, strict: bool = False) -> TrajectoryRecorder:
        """Return a recorder that writes parts of a response as often as the hook needs."""
        return limited(flush_bytes=self.flush_bytes)(path, strict=strict)


def always(*gaps: str) -> Mapping[str, frozenset[str]]:
    """Return the same gaps for every call."""
    return dict.fromkeys(KINDS, frozenset(gaps))


TRANSPORTS = [
    transport.recording_class(library, asynchronous=asynchronous)
    for library in ("httpx", "httpx2")
    for asynchronous in (False, True)
]
REQUEST = "record a request"
HEADERS = "record a response's headers"
LISTEN = "wrap a response"
PART = "record a part of a response"
END = "record a response"
JOIN = "put a stream together"
DOCUMENT = "write the document"
STREAMED = ("stream", "cut", "closed", "left")


def streamed(*gaps: str, whole: str = "") -> Mapping[str, frozenset[str]]:
    """Return the gaps of streamed calls; `whole` are the gaps of a response in one piece."""
    return always(*filter(None, [whole])) | dict.fromkeys(STREAMED, frozenset(gaps))


HOOKS: dict[str, Hook] = {
    "look up the address": Hook(together(failing(exchange, "recognise"), fresh_guard), raises=False),
    "begin the run": Hook(failing(Lifecycle, "begin"), always("begin the run"), has_begun=False),
    "count the interactions": Hook(failing(Run, "next_id"), always(REQUEST)),
    "ask for the step": Hook(failing(exchange, "context_of"), always(REQUEST)),
    "learn the key": Hook(failing(Redaction, "learn"), always(REQUEST)),
    "choose headers": Hook(failing(headers, "kept"), always(REQUEST)),
    "encode items": Hook(failing(ItemEncoder, "encode"), always(REQUEST)),
    "mask the request": Hook(failing(Redaction, "mask_all"), always(REQUEST)),
    "write the request": Hook(failing(Journal, "append_all"), always(REQUEST)),
    "tell of it": Hook(together(failing(Journal, "append_all"), failing(guard.logger, "warning")), always(REQUEST)),
    "hear the status": Hook(failing(exchange.Exchange, "answered"), always(LISTEN)),
    "wrap the stream": Hook(
        together(*(failing(transport_class, "body") for transport_class in TRANSPORTS)), always(LISTEN)
    ),
    "find a decoder": Hook(failing(exchange, "body_decoder"), always(HEADERS)),
    "decode": Hook(failing(exchange, "body_decoder", lambda *_: fail), always(PART)),
    "watch a stream": Hook(failing(stream_flusher, "watch"), streamed(PART)),
    "start a thread": Hook(no_threads_of_ours, streamed(DOCUMENT, PART, whole=DOCUMENT)),
    "beat": Hook(
        together(failing(stream_flusher, "watch", beat_once), failing(ReceivedResponse, "flush")),
        streamed(PART, END),
    ),
    "compress a part": Hook(failing(stream_chunks.zlib, "compress"), streamed(PART, END), flush_bytes=1),
    "mask a part": Hook(failing(Redaction, "mask_stream"), streamed(PART, END), flush_bytes=1),
    "write a part": Hook(once_asked(failing(Journal, "append_all")), streamed(PART, END, whole=END), flush_bytes=1),
    "put together": Hook(failing(attempt_records, "join_stream"), streamed(JOIN)),
    "serialise": Hook(failing(attempt_records, "to_json"), streamed(END)),
    "read a body": Hook(failing(attempt_records, "body_member"), streamed(whole=END)),
    "mask the response": Hook(once_asked(failing(Redaction, "mask")), streamed(END, whole=END)),
    "write the response": Hook(once_asked(failing(Journal, "append_all")), streamed(END, whole=END)),
    "describe an error": Hook(failing(attempt_records, "describe_error"), {"cut": frozenset({END})}),
    "write the document": Hook(
        together(failing(WholeDocument, "write"), thread_is_quick), always(DOCUMENT), raises=False
    ),
    "read for the document": Hook(failing(CallFacts, "read_response"), raises=False),
}
