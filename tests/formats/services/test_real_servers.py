"""The installed MLflow and Phoenix: their servers run here, and real traces are sent to them and imported."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.provider import free_port
from trace_recorder import load, load_all
from trace_recorder.formats.imported_runs import import_traces
from trace_recorder.formats.mlflow.service import MLflow
from trace_recorder.formats.phoenix.service import Phoenix
from trace_recorder.formats.trace_services import FetchError

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "PHOENIX_TELEMETRY_ENABLED": "false"}
TRACES = """
import sys
import mlflow
from mlflow.entities import SpanType

mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("demo")

@mlflow.trace(span_type=SpanType.TOOL)
def weather(city):
    if city == "Nowhere":
        raise ValueError("no such city")
    return 18

@mlflow.trace(span_type=SpanType.CHAT_MODEL)
def ask(model, messages):
    said = {"role": "assistant", "content": "18 degrees"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "r1", "model": model, "choices": [{"message": said, "finish_reason": "stop"}], "usage": usage}

@mlflow.trace(span_type=SpanType.AGENT)
def agent(question, city):
    weather(city)
    answer = ask("gpt-4o", [{"role": "user", "content": question}])
    return answer["choices"][0]["message"]["content"]

for number in range(int(sys.argv[2])):
    agent(f"Weather {number}?", "Paris")
try:
    agent("Weather?", "Nowhere")
except ValueError:
    pass
mlflow.flush_trace_async_logging()
"""
PAGES = 103
"""How many traces the importer requests for each page."""


@contextmanager
def _running(command: list[str], address: str, directory: Path, **settings: str) -> Iterator[None]:
    """Run a server until the end of the block. Wait until the server answers."""
    log = (directory / "server.log").open("w")
    server = subprocess.Popen(  # noqa: S603
        command, cwd=directory, env=os.environ | QUIET | settings, stdout=log, stderr=log, start_new_session=True
    )
    try:
        until = time.monotonic() + 180
        while not _answers(address):
            assert server.poll() is None, (directory / "server.log").read_text()[-2000:]
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.2)
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)
        log.close()


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=2) as answer:  # noqa: S310 - of this machine
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _done(service: MLflow | Phoenix, directory: Path) -> list[str]:
    return [one.done for one in import_traces(service, directory)]


@pytest.mark.skipif(find_spec("sqlalchemy") is None or find_spec("mlflow") is None, reason="mlflow is not installed")
def test_an_experiment_of_a_real_mlflow_is_imported(tmp_path: Path) -> None:
    """The traces are listed in pages. A second import fetches no trace, and a third import fetches the newly assessed
    trace.
    """
    mlflow = pytest.importorskip("mlflow")
    database, port = f"sqlite:///{tmp_path / 'traces.db'}", free_port()
    address = f"http://127.0.0.1:{port}"
    command = [shutil.which("mlflow", path=str(Path(sys.executable).parent)) or "mlflow", "server", "--workers", "1"]
    command += ["--backend-store-uri", database, "--artifacts-destination", str(tmp_path / "artifacts")]
    with _running([*command, "--host", "127.0.0.1", "--port", str(port)], f"{address}/health", tmp_path):
        script = tmp_path / "traces.py"
        script.write_text(TRACES)
        subprocess.run(  # noqa: S603
            [sys.executable, str(script), address, str(PAGES)], env=os.environ | QUIET, check=True, capture_output=True
        )
        client = mlflow.MlflowClient(tracking_uri=address)
        service = MLflow("demo", client)
        out = tmp_path / "out"
        assert _done(service, out) == ["written"] * (PAGES + 1)
        assert _done(service, out) == ["unchanged"] * (PAGES + 1)
        mlflow.set_tracking_uri(address)
        mlflow.log_feedback(trace_id=next(service.traces()).identity, name="right", value=0.5)
        assert sorted(_done(service, out)) == ["replaced"] + ["unchanged"] * PAGES
        with pytest.raises(FetchError, match="no experiment"):
            _done(MLflow("demos", client), out)
    runs = [*load_all(out)]
    assert {run.status for run in runs} == {"completed", "failed"}
    assert [reward.value for run in runs for reward in run.rewards] == [0.5]
    calls = [call for run in runs for call in run.llm_interactions]
    assert len(calls) == PAGES
    assert {(call.model, call.response.content, call.response.usage.input_tokens) for call in calls} == {
        ("gpt-4o", "18 degrees", 10)
    }
    assert sorted(call.input_messages[-1].content for call in calls) == sorted(f"Weather {n}?" for n in range(PAGES))


@pytest.mark.skipif(find_spec("sqlalchemy") is None or find_spec("mlflow") is None, reason="mlflow is not installed")
def test_a_missing_mlflow_server_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    client = mlflow.MlflowClient(tracking_uri=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(FetchError, match="mlflow:demo: the service did not answer"):
        _done(MLflow("demo", client), tmp_path)


@pytest.mark.skipif(find_spec("phoenix.server") is None if find_spec("phoenix") else True, reason="no Phoenix server")
def test_a_project_of_a_real_phoenix_is_imported(tmp_path: Path) -> None:
    """The traces that `export --format otlp` sends are imported with the same calls, messages and tokens."""
    from openinference.semconv.trace import SpanAttributes
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from phoenix.client import Client

    port, grpc = free_port(), free_port()
    address = f"http://127.0.0.1:{port}"
    settings = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc), "PHOENIX_HOST": "127.0.0.1"}
    settings["PHOENIX_WORKING_DIR"] = str(tmp_path)
    with _running([sys.executable, "-m", "phoenix.server.main", "serve"], f"{address}/healthz", tmp_path, **settings):
        provider = TracerProvider(resource=Resource({"openinference.project.name": "demo"}))
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
        tracer = provider.get_tracer("demo")
        for number in range(3):
            with tracer.start_as_current_span("agent", attributes={"openinference.span.kind": "AGENT"}):
                with tracer.start_as_current_span("llm") as span:
                    span.set_attributes(
                        {
                            SpanAttributes.OPENINFERENCE_SPAN_KIND: "LLM",
                            SpanAttributes.LLM_MODEL_NAME: "gpt-4o",
                            SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 10,
                            "llm.input_messages.0.message.role": "user",
                            "llm.input_messages.0.message.content": f"Weather {number}?",
                            "llm.output_messages.0.message.role": "assistant",
                            "llm.output_messages.0.message.content": "18 degrees",
                        }
                    )
        provider.shutdown()
        service, out = Phoenix("demo", Client(base_url=address)), tmp_path / "out"
        until = time.monotonic() + 60
        while len(_listed(service)) < 3 and time.monotonic() < until:
            time.sleep(0.5)
        assert _done(service, out) == ["written"] * 3
        assert _done(service, out) == ["unchanged"] * 3
        with pytest.raises(FetchError, match="phoenix:demos"):
            _done(Phoenix("demos", Client(base_url=address)), out)
    calls = [call for run in map(load, sorted(out.glob("*.json"))) for call in run.llm_interactions]
    assert sorted(call.input_messages[0].content for call in calls) == [f"Weather {n}?" for n in range(3)]
    assert {(call.response.content, call.response.usage.input_tokens) for call in calls} == {("18 degrees", 10)}


def _listed(service: Phoenix) -> list[str]:
    """Return the traces of a project, or an empty list before the project exists."""
    from httpx import HTTPStatusError

    try:
        return [trace.identity for trace in service.traces()]
    except HTTPStatusError:
        return []
