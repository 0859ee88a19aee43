"""The exporters of a recorder.

They send each run from its journal while it is recorded, in threads of their own. So recording a record calls no
function of this module. If the application has an OpenTelemetry trace, an annotation at the beginning of the run names
its span. The end of a run waits for a bounded time. Exporters run inside the guard, so their failures do not reach the
agent. `Lifecycle` calls `begin`, `flush` before the last record, and `end` after it. `exporters/` implements the two
protocols.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trace_recorder.guard import Guard
from trace_recorder.recording import manual_records
from trace_recorder.recording.run import Run
from trace_recorder.views.otlp.span import PARENT_CONTEXT

UNDELIVERED = "undelivered_spans"
"""The annotation of a run that ended before all spans had arrived: the number of missing spans by endpoint."""


class RunExport(Protocol):
    """The export of one run."""

    name: str

    def flush(self, seconds: float) -> int:
        """Send the records that are on file. Wait for `seconds` at most, and return how many spans are missing."""

    def close(self, seconds: float) -> int:
        """Send the end of the run and stop. Wait for `seconds` at most, and return how many spans are missing."""


class Exporter(Protocol):
    """A place to which runs are sent, such as `trace_recorder.otlp(...)`."""

    @property
    def flush_seconds(self) -> float:
        """How long the end of a run may wait for the export: half of it in `flush`, and half of it in `close`."""

    def start(self, journal: Path) -> RunExport:
        """Begin to send the run of a journal."""


class Exporting:
    """The exports of a recorder's open run."""

    def __init__(self, exporters: Sequence[Exporter], guard: Guard) -> None:
        self._exporters = exporters
        self._guard = guard
        self._exports: list[tuple[Exporter, RunExport]] = []

    def begin(self, run: Run, journal: Path) -> None:
        """Begin to send a run, whose first record is on file."""
        self._exports = []
        if not self._exporters:
            return
        with self._guard.protect("note the application's trace"):
            parent = _current_span()
            if parent is not None:
                manual_records.annotation(run, key=PARENT_CONTEXT, value=parent)
        for exporter in self._exporters:
            with self._guard.protect("begin to export the run", costs_record=False):
                self._exports.append((exporter, exporter.start(journal)))

    def flush(self, run: Run) -> None:
        """Send the records that are on file before the run ends.

        An annotation of the run counts the missing spans. Exporters are flushed one after another. A run that ends only
        with its process is not flushed, and has no such annotation.
        """
        missing = {}
        for exporter, export in self._exports:
            with self._guard.protect("export the run", costs_record=False):
                count = export.flush(exporter.flush_seconds / 2)
                if count:
                    missing[export.name] = count
        if missing:
            with self._guard.protect("note what was not exported"):
                manual_records.annotation(run, key=UNDELIVERED, value=missing)

    def end(self) -> None:
        """Send the end of the run, and stop."""
        exports, self._exports = self._exports, []
        for exporter, export in exports:
            with self._guard.protect("export the end of the run", costs_record=False):
                export.close(exporter.flush_seconds / 2)


def _current_span() -> str | None:
    """Return the application's current span as W3C's `traceparent`, if the application uses OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    context = trace.get_current_span().get_span_context() if trace is not None else None
    if context is None or not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
