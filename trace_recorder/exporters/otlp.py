"""`otlp(endpoint)`: sends a run's spans to an OTLP endpoint, during the run and afterwards.

    TrajectoryRecorder(exporters=[otlp("http://localhost:4318")])

The journal is the queue. If the endpoint does not answer, the spans are sent when it answers again, or later by
`trace-recorder export --format otlp --endpoint … --resume`. OpenTelemetry's own exporter sends the spans. This module
sets no tracer provider, so the agent's own tracing does not change. `opentelemetry` (the extra `otel`) is imported when
a sender is made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from trace_recorder.errors import MissingExtraError
from trace_recorder.exporters.delivery import Delivered, Delivery, additions, deliver
from trace_recorder.exporters.http_session import endpoint_of, session, shown_address
from trace_recorder.exporters.live import LiveExport
from trace_recorder.formats.spans.writing.span import Span
from trace_recorder.formats.spans.writing.span_maker import Conventions, SpanMaker
from trace_recorder.formats.spans.writing.spans import SCHEMA_URL, SCOPE, plan_spans
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.version import __version__


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """An OTLP endpoint and its settings. The function `otlp` explains the settings."""

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
        """The name of this target in messages and annotations."""
        return shown_address(self.endpoint)

    def sender(self) -> OtlpSender:
        """Return a new sender. Raises MissingExtraError."""
        return OtlpSender(
            self.endpoint,
            headers=self.headers,
            timeout_seconds=self.timeout_seconds,
            service_name=self.service_name,
        )

    def delivered(self, run: Path) -> Delivered:
        """Return a `Delivered` for a run and this target. Its ids are not read yet.

        Targets whose settings make different spans have separate ids.
        """
        settings = {"conventions": self.conventions, "content": self.content, "new_messages": self.new_messages}
        return Delivered(run, f"{self.name} {json.dumps(settings)}")

    def start(self, journal: Path) -> LiveExport:
        """Begin to send the run of a journal, in its own thread."""
        return LiveExport(journal, self)

    def send_run(self, path: Path, trajectory: Trajectory, sender: OtlpSender, *, resume: bool = False) -> Delivery:
        """Send a loaded run.

        If `resume` is True, send only spans and rewards that were not delivered yet. Raises OSError if the file of
        delivered ids cannot be read or written.
        """
        delivered = self.delivered(path)
        if resume:
            delivered.read()
        maker = SpanMaker.of(self.conventions, content=self.content)
        planned = plan_spans(trajectory, maker, new_messages=self.new_messages)
        is_over = trajectory.status != "running"
        final = [span for span in planned if span.is_final or is_over]
        if not is_over:
            return deliver(final, delivered, sender.send)
        return deliver(final, delivered, sender.send, additions(trajectory, maker, self.conventions))


def otlp(  # noqa: PLR0913 - one keyword for each setting
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

    The default endpoint is OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT of the environment. The
    `conventions` are "genai" (OpenTelemetry), "genai-0.1" (version 0.1 of the same conventions), "openinference" or
    "both". If `content` is False, prompts, answers, arguments and results are left out. If `new_messages` is True, each
    call has only the new messages of its prompt. A request may take at most `timeout_seconds`. The end of a run waits
    at most `flush_seconds` for the export. Raises MissingExtraError if OpenTelemetry's SDK is not installed, and
    ValueError if the endpoint is not an address or the conventions are unknown.

    Examples:
        >>> with TrajectoryRecorder(task="count the files", exporters=[otlp("http://localhost:4318")]) as recorder:
        ...     reply = run_my_agent(recorder.wrap(OpenAI()))
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


class OtlpSender:
    """A sender of batches of spans to an OTLP endpoint. Only one thread at a time may use it."""

    def __init__(
        self,
        endpoint: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 10.0,
        service_name: str = "trace_recorder",
    ) -> None:
        """Make a sender. Raises MissingExtraError if OpenTelemetry's SDK is not installed."""
        self.endpoint = endpoint
        try:
            exporter = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        except ImportError as error:
            raise MissingExtraError(
                "Spans are sent by OpenTelemetry's SDK, which is not installed: pip install 'trace-recorder[otel]'"
            ) from error
        self._sdk = import_module("opentelemetry.sdk.trace")
        self._api = import_module("opentelemetry.trace")
        self._context = import_module("opentelemetry.context")
        self._succeeded = import_module("opentelemetry.sdk.trace.export").SpanExportResult.SUCCESS
        scopes = import_module("opentelemetry.sdk.util.instrumentation")
        self._scope = scopes.InstrumentationScope(SCOPE, __version__, SCHEMA_URL)
        resources = import_module("opentelemetry.sdk.resources")
        self._resource = resources.Resource({"service.name": service_name}, SCHEMA_URL)
        self._exporter = exporter.OTLPSpanExporter(
            endpoint=endpoint, headers=dict(headers or {}) or None, timeout=timeout_seconds, session=session()
        )

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans in one request, within the time limit. Return whether the endpoint accepted the spans."""
        context = self._context
        key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
        token = context.attach(context.set_value(key, True))  # so that the request itself is not traced
        try:
            return bool(self._exporter.export([*map(self._readable, spans)]) is self._succeeded)
        finally:
            context.detach(token)

    def close(self) -> None:
        """Stop sending, and give up a request that waits for its next attempt."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> Any:
        trace = self._api
        parent = None
        if span.parent_id:
            parent = self._span_context(span.trace_id, span.parent_id)
        status = trace.Status(trace.StatusCode.UNSET)
        if span.error is not None:
            status = trace.Status(trace.StatusCode.ERROR, span.error or None)
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._span_context(span.trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=dict(span.attributes),
            events=[self._sdk.Event(event.name, dict(event.attributes), event.time) for event in span.events],
            kind=trace.SpanKind.CLIENT if span.kind == "client" else trace.SpanKind.INTERNAL,
            instrumentation_scope=self._scope,
            status=status,
            start_time=span.start,
            end_time=span.end,
        )

    def _span_context(self, trace_id: str, span_id: str) -> Any:
        trace = self._api
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        return trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
