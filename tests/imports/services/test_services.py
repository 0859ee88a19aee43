"""The traces of LangSmith and Phoenix, fetched by their own clients from a server of this machine."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.imports.foreign.test_span_lists import phoenix_spans
from tests.imports.foreign.test_trace_exports import langsmith_runs
from trace_recorder import load
from trace_recorder.imports.services.langsmith import LangSmith
from trace_recorder.imports.services.phoenix import Phoenix
from trace_recorder.imports.services.traces import TraceService, client_module
from trace_recorder.recording.imported_runs import import_traces

Answer = Callable[[str, dict[str, Any]], tuple[int, Any]]


@contextmanager
def _server(answer: Answer) -> Iterator[str]:
    """Run a server that answers a path and its parameters with JSON; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            split = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, value = answer(split.path, parse_qs(split.query) | (json.loads(body) if body else {}))
            data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _reply  # noqa: N815 the names that http.server asks for

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _LangSmith:
    """A project of LangSmith with several traces, whose lists have one element a page."""

    def __init__(self, count: int) -> None:
        self.traces = [self._trace() for _ in range(count)]
        self.fetched: list[str] = []

    def _trace(self) -> list[dict[str, Any]]:
        ids = {run["id"]: str(uuid.uuid4()) for run in langsmith_runs()}
        told = [run | {"session_id": str(uuid.uuid4()), "app_path": "x"} for run in langsmith_runs()]
        for run in told:
            run |= {name: ids.get(run[name] or "") for name in ("id", "trace_id", "parent_run_id")}
        return told

    def answer(self, path: str, given: dict[str, Any]) -> tuple[int, Any]:
        if path.endswith("/sessions"):
            project = {"id": str(uuid.uuid4()), "tenant_id": str(uuid.uuid4()), "name": "demo"}
            return 200, [project | {"start_time": "2025-10-09T00:00:00", "reference_dataset_id": None}]
        if not path.endswith("/runs/query"):
            return 200, {}
        trace_id = given.get("trace") or given.get("trace_id")
        if trace_id:
            self.fetched.append(trace_id)
        listed = [run for trace in self.traces for run in trace if run["trace_id"] == trace_id]
        found = listed if trace_id else [trace[0] for trace in self.traces]
        at = int(given.get("cursor") or 0)
        return 200, {"runs": found[at : at + 1], "cursors": {"next": str(at + 1) if at + 1 < len(found) else None}}


@pytest.mark.filterwarnings("ignore:list_runs")  # its successor is another interface, of another version of the service
def test_a_project_of_langsmith_is_imported_and_not_fetched_again(tmp_path: Path) -> None:
    langsmith = pytest.importorskip("langsmith")
    kept = _LangSmith(3)
    with _server(kept.answer) as address:
        client = langsmith.Client(api_url=address, api_key="none", auto_batch_tracing=False)
        service = LangSmith("demo", client)
        assert [one.done for one in import_traces(service, tmp_path)] == ["written"] * 3
        assert sorted(set(kept.fetched)) == sorted(trace[0]["id"] for trace in kept.traces)
        kept.fetched.clear()
        assert [one.done for one in import_traces(service, tmp_path)] == ["unchanged"] * 3
        assert kept.fetched == []
    run = load(tmp_path / f"langsmith-{kept.traces[0][0]['id']}.json")
    (one,) = run.llm_interactions
    assert (run.final_result, one.response.id, one.response.usage.input_tokens) == ("18", "r1", 10)
    assert run.metadata["imported_from"]["file"] == "langsmith:demo"


class _Phoenix:
    """A project of Phoenix with several traces, whose lists have two elements a page."""

    def __init__(self, count: int) -> None:
        self.spans: list[dict[str, Any]] = []
        self.fetched: list[str] = []
        self.fails_at: str | None = None
        for number in range(count):
            for span in phoenix_spans():
                self.spans.append(span | {"context": span["context"] | {"trace_id": f"t{number}"}})

    def answer(self, path: str, given: dict[str, Any]) -> tuple[int, Any]:
        if not path.endswith("/spans"):
            return 200, "99.0.0"  # it asks for the version of the server
        traces, roots = given.get("trace_id", []), "parent_id" in given
        self.fetched += traces
        if self.fails_at in traces:
            return 500, {}
        wanted = [
            span
            for span in self.spans
            if (not traces or span["context"]["trace_id"] in traces) and not (roots and span["parent_id"])
        ]
        at = int(given.get("cursor", ["0"])[0])
        return 200, {"data": wanted[at : at + 2], "next_cursor": str(at + 2) if at + 2 < len(wanted) else None}


def test_a_project_of_phoenix_is_resumed_where_it_was_stopped(tmp_path: Path) -> None:
    client_of = pytest.importorskip("phoenix.client")
    kept = _Phoenix(3)
    kept.fails_at = "t1"
    with _server(kept.answer) as address:
        service = Phoenix("demo", client_of.Client(base_url=address))
        runs = import_traces(service, tmp_path)
        assert next(runs).done == "written"
        with pytest.raises(Exception, match="500"):
            next(runs)
        kept.fetched.clear()
        kept.fails_at = None
        assert [one.done for one in import_traces(service, tmp_path)] == ["unchanged", "written", "written"]
    assert "t0" not in kept.fetched
    run = load(tmp_path / "phoenix-t2.json")
    assert (run.status, run.final_result, run.metrics["tool_calls"]) == ("completed", "18", 1)


def test_a_trace_that_has_changed_is_replaced(tmp_path: Path) -> None:
    client_of = pytest.importorskip("phoenix.client")
    kept = _Phoenix(1)
    with _server(kept.answer) as address:
        service: TraceService = Phoenix("demo", client_of.Client(base_url=address))
        assert [one.done for one in import_traces(service, tmp_path)] == ["written"]
        kept.spans[0]["end_time"] = "2025-10-09T09:00:00+00:00"
        kept.spans[0]["attributes"]["output.value"] = "19"
        assert [one.done for one in import_traces(service, tmp_path)] == ["replaced"]
    assert load(tmp_path / "phoenix-t0.json").final_result == "19"


def test_a_client_that_is_not_installed_is_named() -> None:
    with pytest.raises(ImportError, match=r"trace-recorder\[langsmith\]"):
        client_module("no_such_client", "langsmith")
