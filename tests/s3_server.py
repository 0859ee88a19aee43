"""A store with the protocol of S3 for tests and benchmarks: moto's application, with counts and with faults.

The server counts the requests of each kind, and the bytes of the bodies that it sends. A fault changes the answers to
the requests for some keys.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Application = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]
Fault = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes] | None]
"""Answers a request itself, or returns None if the store answers it."""


class CountedStore:
    """The application of a store, with counts.

    `requests` counts GET, HEAD, LIST and the others. `sent_bytes` are the bytes of bodies.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: Counter[str] = Counter()
        self.keys: list[tuple[str, str]] = []
        """The kind and the key of each request."""
        self.sent_bytes = 0
        self.most_at_once = 0
        self.fault: Fault | None = None
        self.before: Callable[[str, str], None] | None = None
        """This function is called with the kind and the key of a request before it is answered."""
        self._store: Application = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._open = 0

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterator[bytes]:
        kind, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].lstrip("/")
        if kind == "GET" and "list-type" in environ["QUERY_STRING"]:
            kind = "LIST"
        with self._lock:
            self.requests[kind] += 1
            self.keys.append((kind, key))
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            if self.before is not None:
                self.before(kind, key)
            answer = None
            if self.fault is not None:
                answer = self.fault(environ, start_response)
            if answer is None:
                answer = self._store(environ, start_response)
            for part in answer:
                self.sent_bytes += len(part)
                yield part
        finally:
            with self._lock:
                self._open -= 1

    def reset(self) -> None:
        """Forget the counts and the faults."""
        self.requests.clear()
        self.keys.clear()
        self.sent_bytes = self.most_at_once = 0
        self.fault = self.before = None

    def environment(self) -> dict[str, str]:
        """Return the variables with which a program reaches the store."""
        names = {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
        return {**names, "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def serving() -> Iterator[CountedStore]:
    """Serve a store on a free port of this machine during the block."""
    store = CountedStore()
    server: Any = make_server("127.0.0.1", 0, store, threaded=True)
    server.RequestHandlerClass.log_request = lambda *_: None
    server.RequestHandlerClass.protocol_version = "HTTP/1.1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
