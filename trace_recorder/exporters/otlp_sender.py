"""Sends spans to an OTLP endpoint by OpenTelemetry's own exporter.

No provider is set, so the process does not change. `opentelemetry` (the extra `otel`) is imported when a sender is
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from trace_recorder.errors import MissingExtraError
from trace_recorder.exporters.sink_session import session
from trace_recorder.version import __version__
from trace_recorder.views.otlp.otlp_json import SCHEMA_URL, SCOPE
from trace_recorder.views.otlp.span import Span, SpanEvent


class OtlpSender:
    """Sends batches of spans. One thread at a time may use it."""

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
        """Send spans in one request, and return whether they were accepted. It takes at most the time limit."""
        context = self._context
        key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation")
        token = context.attach(context.set_value(key, True))  # the request is not traced itself
        try:
            return bool(self._exporter.export([*map(self._readable, spans)]) is self._succeeded)
        finally:
            context.detach(token)

    def close(self) -> None:
        """Stop sending. A request that waits for another attempt is given up."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> Any:
        trace = self._api
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._span_context(span.trace_id, span.span_id),
            parent=self._span_context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            events=[*map(self._event, span.events)],
            kind=trace.SpanKind.CLIENT if span.kind == "client" else trace.SpanKind.INTERNAL,
            instrumentation_scope=self._scope,
            status=trace.Status(trace.StatusCode.UNSET)
            if span.error is None
            else trace.Status(trace.StatusCode.ERROR, span.error or None),
            start_time=span.start,
            end_time=span.end,
        )

    def _event(self, event: SpanEvent) -> Any:
        return self._sdk.Event(event.name, dict(event.attributes), event.time)

    def _span_context(self, trace_id: str, span_id: str) -> Any:
        trace = self._api
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        return trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
