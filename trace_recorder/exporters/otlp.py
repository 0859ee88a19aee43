"""`otlp(endpoint)`: sends a run's spans to an endpoint, during the run and afterwards.

TrajectoryRecorder(exporters=[otlp("http://localhost:4318")])

The journal is the queue. Spans that could not be sent are sent when the endpoint answers again, or later by
`trace-recorder export --format otlp --endpoint … --resume`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trace_recorder.exporters.addresses import endpoint_of, shown
from trace_recorder.exporters.batches import Delivery, additions, deliver
from trace_recorder.exporters.delivered import Delivered
from trace_recorder.exporters.live import LiveExport
from trace_recorder.exporters.otlp_sender import OtlpSender
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.otlp.span_maker import Conventions, SpanMaker
from trace_recorder.views.otlp.spans import plan_spans


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """An OTLP endpoint and its settings, which `otlp` describes."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    conventions: Conventions = "genai"
    content: bool = True
    new_messages: bool = False
    service_name: str = "trace_recorder"
    timeout_seconds: float = 10.0
    flush_seconds: float = 2.0

    @property
    def name(self) -> str:
        """The name for messages and annotations."""
        return shown(self.endpoint)

    def sender(self) -> OtlpSender:
        """Return a new sender. Raises MissingExtraError."""
        return OtlpSender(
            self.endpoint,
            headers=self.headers,
            timeout_seconds=self.timeout_seconds,
            service_name=self.service_name,
        )

    def delivered(self, run: Path) -> Delivered:
        """Return the record of what this target has of a run. Each form of the spans has its own record."""
        form = {"conventions": self.conventions, "content": self.content, "new_messages": self.new_messages}
        return Delivered(run, f"{self.name} {json.dumps(form)}")

    def start(self, journal: Path) -> LiveExport:
        """Begin to send the run of a journal, in its own thread."""
        return LiveExport(journal, self)

    def send_run(self, path: Path, trajectory: Trajectory, sender: OtlpSender, *, resume: bool = False) -> Delivery:
        """Send a loaded run. With `resume`, send only what was not delivered yet. Raises OSError."""
        delivered = self.delivered(path)
        if resume:
            delivered.read()
        maker = SpanMaker.of(self.conventions, content=self.content)
        planned = plan_spans(trajectory, maker, new_messages=self.new_messages)
        is_over = trajectory.status != "running"
        final = [one for one in planned if one.is_final or is_over]
        added = additions(trajectory, maker, self.conventions) if is_over else ()
        return deliver(final, delivered, sender.send, additions=added)


def otlp(  # noqa: PLR0913 - one keyword a setting
    endpoint: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    conventions: Conventions = "genai",
    content: bool = True,
    new_messages: bool = False,
    service_name: str = "trace_recorder",
    timeout_seconds: float = 10.0,
    flush_seconds: float = 2.0,
) -> OtlpTarget:
    """Return an exporter of spans to an OTLP/HTTP endpoint, such as http://localhost:4318.

    Without an endpoint it is that of OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT. `conventions`
    are those of OpenTelemetry ("genai", or of their version 0.1 alone: "genai-0.1"), of OpenInference, or "both".
    Without `content`, prompts, answers, arguments and results are left out. With `new_messages`, each call has only the
    new messages of its prompt. A request may take `timeout_seconds`, and the end of a run waits for `flush_seconds` at
    most. Raises MissingExtraError if OpenTelemetry's SDK is not installed, and ValueError if the endpoint is not an
    address.
    """
    target = OtlpTarget(
        endpoint_of(endpoint or _endpoint_of_environment()),
        dict(headers or {}),
        conventions,
        content,
        new_messages,
        service_name,
        timeout_seconds,
        flush_seconds,
    )
    SpanMaker.of(conventions, content=content)  # raises ValueError for unknown conventions
    target.sender().close()  # raises at once if an extra is missing
    return target


def _endpoint_of_environment() -> str:
    traces = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    server = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    return traces or server.rstrip("/") + "/v1/traces"
