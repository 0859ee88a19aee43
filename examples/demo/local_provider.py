"""An LLM provider on 127.0.0.1: five dialects of four providers over HTTP/1.1, with a small model behind them.

`policy.py` decides what an answer says, and `dialects/` writes it. This file has the server, and two failures on
purpose: a request that is refused with 429, and a request that stalls in the middle of its answer. Nothing leaves the
machine. Closing the provider closes every connection and joins every thread.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from examples.demo.dialects import anthropic_messages, gemini, ollama_chat, openai_chat, openai_responses
from examples.demo.dialects.exchange import Dialect, Exchange, Payload, RefusedError
from examples.demo.policy import decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

RETRY_AFTER = {"Retry-After": "1", "Retry-After-Ms": "50"}


DIALECTS: tuple[Dialect, ...] = (anthropic_messages, gemini, ollama_chat, openai_responses, openai_chat)


class LocalProvider:
    """The server, which runs until `close` (or for a `with` block).

    Requests are counted from 1 in the order in which they come. Request `refuse_at` is answered with 429 and
    Retry-After. Request `stall_at` stops half way through its answer until `release`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits = 0
        self._refused: int | None = None
        self._stalling: int | None = None
        self._stalled = threading.Event()
        self._released = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Return the URL of the server."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def hits(self) -> int:
        """Return the number of requests so far."""
        return self._hits

    def refuse_at(self, hit: int) -> None:
        """Answer this request with 429."""
        self._refused = hit

    def stall_at(self, hit: int) -> None:
        """Stop in the middle of the answer to this request."""
        self._stalled.clear()
        self._released.clear()
        self._stalling = hit

    def wait_until_stalled(self, seconds: float) -> bool:
        """Wait until half of the stalling answer is sent. Return False if that took too long."""
        return self._stalled.wait(seconds)

    def release(self) -> None:
        """Let the stalled request continue."""
        self._released.set()

    def close(self) -> None:
        """Stop listening, close the open connections, and wait for the threads."""
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.end_connections()
        self._server.server_close()

    def count(self) -> int:
        """Count a request, and return its number."""
        with self._lock:
            self._hits += 1
            return self._hits

    def admit(self, number: int) -> None:
        """Raise RefusedError if this is the request to refuse."""
        if number == self._refused:
            raise RefusedError(429, "Rate limit reached; try again later.")

    def pause(self, number: int) -> None:
        """Hold the answer that is to stall. Called half way through each answer."""
        if number == self._stalling:
            self._stalled.set()
            self._released.wait()


class _Server(socketserver.ThreadingTCPServer):
    """A server with a thread for each connection. It knows its threads, so that none outlives the server."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, provider: LocalProvider) -> None:
        self.provider = provider
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        for request in tuple(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        """Answer requests until the client goes away, which is never an error."""
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        provider = self.server.provider
        number = provider.count()
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        names = {name.lower() for name in self.headers}
        dialect = next((dialect for dialect in DIALECTS if dialect.owns(path, names)), openai_chat)
        try:
            provider.admit(number)
            exchange = _exchange(dialect, number, path, text)
        except RefusedError as refused:
            extra = RETRY_AFTER if refused.status == 429 else {}
            self._send_whole(refused.status, dialect.problem(refused.status, str(refused)), number, extra)
            return
        if dialect.streams(exchange):
            self._send_stream(dialect.STREAM_TYPE, list(dialect.stream(exchange)), number)
        else:
            self._send_whole(200, dialect.answer(exchange), number)

    def do_GET(self) -> None:
        """Answer 404: there are no models and no files to fetch."""
        self.do_POST()

    def _send_whole(self, status: int, body: Payload, number: int, extra: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        length = {"Content-Length": str(len(data))}
        self._send_head(status, {"Content-Type": "application/json", **length, **(extra or {})}, number)
        self._send_chunks([data[: len(data) // 2], data[len(data) // 2 :]], number)

    def _send_stream(self, content_type: str, chunks: Sequence[bytes], number: int) -> None:
        self._send_head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked"}, number)
        self._send_chunks([b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks], number)
        self.wfile.write(b"0\r\n\r\n")

    def _send_head(self, status: int, headers: Mapping[str, str], number: int) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        for name in ("Request-Id", "X-Request-Id"):
            self.send_header(name, f"req_{number:06d}")
        self.end_headers()

    def _send_chunks(self, chunks: Sequence[bytes], number: int) -> None:
        for index, chunk in enumerate(chunks):
            if index == len(chunks) // 2:
                self.server.provider.pause(number)
            self.wfile.write(chunk)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Log nothing, because the demo prints only the agent's output."""


def _exchange(dialect: Dialect, number: int, path: str, text: bytes) -> Exchange:
    """Return the request with the model's action. Raise RefusedError if the request cannot be read."""
    try:
        body = json.loads(text or b"{}")
        conversation = dialect.read(path, body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(400, f"The request could not be read: {type(error).__name__}: {error}") from error
    return Exchange(number, path, body, decide(conversation))
