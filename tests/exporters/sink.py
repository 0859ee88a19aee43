"""A local server that takes OTLP requests, and can be slow, full or gone."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.local_server import LocalServer, running


class Sink(LocalServer):
    """What arrived at it, and how it answers."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self.status = 200
        self.seconds = 0.0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    def spans(self) -> list[Any]:
        """Every span that it accepted."""
        found = []
        for _, headers, body in self.requests:
            data = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans]
        return found

    def names(self) -> list[str]:
        """The names of the spans that it accepted, in the order of the alphabet."""
        return sorted(span.name for span in self.spans())


class _Handler(BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(self.server.seconds)
        status = self.server.status
        if status < 300:
            self.server.requests.append((self.path, dict(self.headers), body))
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        with suppress(OSError):  # a client may not read it all
            self.wfile.write(self.server.body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def sink(port: int = 0) -> Iterator[Sink]:
    """Run a sink for a block."""
    server = Sink(port)
    with running(server):
        yield server


def attributes(span: Any) -> dict[str, Any]:
    """The attributes of a span that arrived."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
