"""The limits of one run: when parts of responses are written, how long an ending run waits, and the document's limits.

These limits are not settings of the recorder: users always have the defaults, and only tests set smaller limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from trace_recorder.reading.live_document.document_thread import DEFAULT_LIMITS, DocumentLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run.

    The received part of a response is written when it has `flush_bytes` bytes, or `flush_seconds` after the last write.
    A plain response of more than `body_bytes` is not recorded, because its record needs several times as much memory.
    Of a request's body that is made while it is sent, at most `body_bytes` are kept.
    A run that ends waits at most `lock_timeout_seconds` for a thread that is recording a response at that moment.
    """

    flush_bytes: int = 256 * 1024
    flush_seconds: float = 1.0
    body_bytes: int = 64 * 1024 * 1024
    lock_timeout_seconds: float = 1.0
    document: DocumentLimits = DEFAULT_LIMITS
