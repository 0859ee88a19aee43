"""The limits of one run: when parts of responses are written, how long an ending run waits, what the document takes.

`TrajectoryRecorder` passes them on. They are no settings: users have the defaults, tests have smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from trace_recorder.derive.live_document.document_thread import DEFAULT_LIMITS, DocumentLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run.

    Of a response that comes in parts, what has come is written when it has `flush_bytes`, or after `flush_seconds`. A
    run that ends waits for `lock_timeout_seconds` for a response that is being recorded at that moment.
    """

    flush_bytes: int = 64 * 1024
    flush_seconds: float = 1.0
    lock_timeout_seconds: float = 1.0
    document: DocumentLimits = DEFAULT_LIMITS
