"""Starts and ends the export of runs, for the exporters of a recorder.

An exporter reads the journal of a run while the run is recorded, and sends its records, in threads of its own. So no
record waits for an exporter. Only the end of a run waits, for a bounded time. If the application uses OpenTelemetry, an
annotation at the beginning of the run names the application's current span. Exporters are called inside the guard, so
their failures do not reach the agent. `Lifecycle` calls `Exporting.begin`, then `flush` before the last record, and
`end` after the last record. `exporters/` implements the two protocols.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trace_recorder.guard import Guard
from trace_recorder.recording import manual_records
from trace_recorder.recording.run import Run
from trace_recorder.values.origins import PARENT_CONTEXT

UNDELIVERED = "undelivered_spans"
"""The key of the annotation of a run that ended before all of its spans had arrived.

The annotation says how many spans are missing, by endpoint.
"""


class RunExport(Protocol):
    """The export of one run by one exporter."""

    name: str

    def flush(self, seconds: float) -> int:
        """Send the records that are on file. Wait for `seconds` at most, and return how many spans are missing."""

    def close(self, seconds: float) -> int:
        """Send the end of the run and stop. Wait for `seconds` at most, and return how many spans are missing."""


class Exporter(Protocol):
    """An exporter, which sends runs to another program. An example is `trace_recorder.otlp(...)`."""

    @property
    def flush_seconds(self) -> float:
        """How many seconds the end of a run may wait for the export: one half in `flush`, the other half in `close`."""

    def start(self, journal: Path) -> RunExport:
        """Begin to send the run of a journal."""


class Exporting:
    """The exports of a recorder's open run."""

    def __init__(self, exporters: Sequence[Exporter], guard: Guard) -> None:
        self._exporters = exporters
        self._guard = guard
        self._exports: list[tuple[Exporter, RunExport]] = []

    def begin(self, run: Run, journal: Path) -> None:
        """Begin to send a run. The first record of the run is on file already."""
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
        """Send the records that are on file, before the run ends.

        If spans are missing after that, an annotation of the run says how many. The exports are flushed one after
        another. If a run ends only with its process, `flush` is not called, and the run has no such annotation.
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
        """Send the end of the run, and stop the exports."""
        exports, self._exports = self._exports, []
        for exporter, export in exports:
            with self._guard.protect("export the end of the run", costs_record=False):
                export.close(exporter.flush_seconds / 2)


def _current_span() -> str | None:
    """Return the application's current OpenTelemetry span as a W3C `traceparent`, or None."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
