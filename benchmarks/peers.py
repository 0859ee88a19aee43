"""Recorders of other projects, each set up as its own documentation says, with all contents.

They run in a separate environment, `.venv-peers`, with its own unrecorded contender. Their uploads go to a local server
that accepts and drops them. The clock stops when they have flushed. `python -m benchmarks.peers` prints the needed
packages. Our own tests and benchmarks do not need them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from benchmarks.contenders import Unrecorded

SDK_PACKAGES = ("opentelemetry-sdk",)


class UnrecordedBesidePeers(Unrecorded):
    """The same calls in the peers' environment, as the base of the peers' ratios."""

    title = "unrecorded, peers' environment"
    packages = ("openai",)


class Uploading(Unrecorded):
    """A contender that sends its records to a server."""

    uploads = True


class LangSmith(Uploading):
    """langsmith's `wrap_openai`, with its client in the background."""

    title = "langsmith wrap_openai"
    packages = ("langsmith",)

    def install(self, sink: str) -> None:
        """Create its client."""
        os.environ |= {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": sink, "LANGSMITH_API_KEY": "lsv2_bench"}
        self._client = import_module("langsmith").Client()
        self._wrapped: object = None

    def start(self, client: Any) -> None:
        """Wrap the client once."""
        if self._wrapped is not client:
            extra = {"client": self._client}
            import_module("langsmith.wrappers").wrap_openai(client, tracing_extra=extra)
            self._wrapped = client

    def finish(self) -> None:
        """Send all waiting records."""
        self._client.flush()


class Langfuse(Uploading):
    """langfuse's drop-in replacement of the module openai."""

    title = "langfuse drop-in"
    packages = ("langfuse",)

    def install(self, sink: str) -> None:
        """Import the module that changes openai's classes."""
        os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk-lf-bench", "LANGFUSE_SECRET_KEY": "sk-lf-bench"}
        os.environ |= {"LANGFUSE_HOST": sink, "LANGFUSE_BASE_URL": sink}
        import_module("langfuse.openai")
        self._client = import_module("langfuse").get_client()

    def finish(self) -> None:
        """Send what waits."""
        self._client.flush()


class OpenTelemetry(Unrecorded):
    """An instrumentation of openai, with OpenTelemetry's batches, written as lines by its own exporter."""

    module: str
    instrumentor = "OpenAIInstrumentor"

    def install(self, sink: str) -> None:
        """Instrument the module openai. Spans hold as many attributes as there are messages."""
        trace = import_module("opentelemetry.sdk.trace")
        self._export = import_module("opentelemetry.sdk.trace.export")
        limits = trace.SpanLimits(max_span_attributes=100_000)
        self._provider = trace.TracerProvider(span_limits=limits)
        getattr(import_module(self.module), self.instrumentor)().instrument(tracer_provider=self._provider)
        self._file: Any = None

    def start(self, client: Any) -> None:
        """Open the file of this lap."""
        if self._file is None:
            lines = _Lines(self)
            exporter = self._export.ConsoleSpanExporter(out=lines, formatter=_line_of)
            self._provider.add_span_processor(self._export.BatchSpanProcessor(exporter))
        self._file = (self.directory / "spans.jsonl").open("w", encoding="utf-8")

    def write(self, text: str) -> None:
        """Take what the exporter writes."""
        self._file.write(text)

    def finish(self) -> None:
        """Have what waits written."""
        self._provider.force_flush(600_000)
        self._file.flush()


class _Lines:
    """The file for an exporter that takes a file once; each lap puts another file behind it."""

    def __init__(self, contender: OpenTelemetry) -> None:
        self.write = contender.write

    def flush(self) -> None:
        """Nothing waits here."""


def _line_of(span: Any) -> str:
    return span.to_json(indent=None) + "\n"


class OpenInference(OpenTelemetry):
    """Arize's."""

    title = "openinference, batch, lines"
    packages = ("openinference-instrumentation-openai", *SDK_PACKAGES)
    module = "openinference.instrumentation.openai"


class OpenLLMetry(OpenTelemetry):
    """Traceloop's."""

    title = "otel openai (openllmetry), lines"
    packages = ("opentelemetry-instrumentation-openai", *SDK_PACKAGES)
    module = "opentelemetry.instrumentation.openai"


class OpenTelemetryV2(OpenTelemetry):
    """OpenTelemetry's own, with the messages in the spans."""

    title = "otel openai-v2, batch, lines"
    packages = ("opentelemetry-instrumentation-openai-v2", *SDK_PACKAGES)
    module = "opentelemetry.instrumentation.openai_v2"
    needs = (
        "opentelemetry-util-genai==1.0b0",
        "httpx",
    )  # 2.4b0 imports both: a module that util-genai dropped later, and httpx

    def install(self, sink: str) -> None:
        """Turn on the recording of messages, which is off by default."""
        os.environ |= {
            "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        }
        super().install(sink)


class MLflow(Unrecorded):
    """MLflow's autolog, into a local SQLite file; traces are logged by a thread of its own."""

    title = "mlflow autolog, sqlite"
    packages = ("mlflow",)
    heavy = True

    def install(self, sink: str) -> None:
        """Turn off its usage reports."""
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet"}
        os.environ |= {"MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "true"}
        self._mlflow = import_module("mlflow")

    def start(self, client: Any) -> None:
        """Use a database in the directory of this lap."""
        self._mlflow.set_tracking_uri(f"sqlite:///{self.directory}/mlflow.db")
        artifacts = (self.directory / "artifacts").as_uri()
        number = self._mlflow.create_experiment("benchmark", artifact_location=artifacts)
        self._mlflow.set_experiment(experiment_id=number)
        self._mlflow.openai.autolog()

    def finish(self) -> None:
        """Write all waiting records."""
        self._mlflow.flush_trace_async_logging()


PEERS: dict[str, type[Unrecorded]] = {
    "unrecorded-peers": UnrecordedBesidePeers,
    "langsmith": LangSmith,
    "langfuse": Langfuse,
    "openinference": OpenInference,
    "openllmetry": OpenLLMetry,
    "otel-v2": OpenTelemetryV2,
    "mlflow": MLflow,
}


if __name__ == "__main__":
    print(*dict.fromkeys(package for peer in PEERS.values() for package in (*peer.packages, *peer.needs)))
