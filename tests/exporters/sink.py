"""A local server that receives OTLP requests, and can be slow, full or absent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.provider import Answer, Request, serving, whole

PATIENCE = 120.0
"""A request that waits longer than this many seconds for the sink's answer is an error of the test."""


@dataclass
class Sink:
    """The sink's answers to requests, and the data that it accepted."""

    url: str = ""
    status: int = 200
    may_answer: threading.Event = field(default_factory=threading.Event)
    """Until this is set, which it is at first, the sink answers no request."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.may_answer.set()

    def answer_to(self, request: Request) -> Answer:
        """Answer a request, and keep it if it is accepted."""
        assert self.may_answer.wait(PATIENCE)
        if self.status < 300:
            self.requests.append(request)
        return whole(self.body, self.status, **self.headers)

    def spans(self) -> list[Any]:
        """Return every span that the sink accepted."""
        spans = []
        for request in self.requests:
            packed = request.headers.get("content-encoding") == "gzip"
            data = gzip.decompress(request.body) if packed else request.body
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
                spans += [span for scope in resource.scope_spans for span in scope.spans]
        return spans

    def names(self) -> list[str]:
        """Return the names of the accepted spans in alphabetical order."""
        return sorted(span.name for span in self.spans())


@contextmanager
def sink(port: int = 0) -> Iterator[Sink]:
    """Run a sink during a block."""
    collector = Sink()
    with serving(collector.answer_to, port=port) as server:
        collector.url = server.url
        yield collector


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a received span."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
