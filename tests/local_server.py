"""A server of this machine that says nothing of clients that hang up: commands under test share its standard error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer


class LocalServer(ThreadingHTTPServer):
    """A thread for each connection, on a free port unless one is named."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away, as a stream's end unread resets the connection; print the rest."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Serve in a thread for the time of a block."""
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.002))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
