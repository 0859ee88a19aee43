"""The provider of all tests: an HTTP server of this machine that sends what a test scripts, byte for byte.

A script is a list of answers. Each request takes the next one, and the last one is repeated. In place of an answer
there may be a function that returns the answer to a request: the fake model of `tests/scripted_model.py` is one. The
server keeps every request. A chunk of an answer is bytes, a number of seconds to pause, a function to call,
DROP, which cuts the connection, or SILENCE, after which nothing is sent until the client closes the connection.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import SystemRandom
from socketserver import BaseServer
from typing import Any, NamedTuple

DROP = object()
SILENCE = object()
HANG_SECONDS = 300.0
"""How many seconds a client may hold a silent connection. No test waits for that long unless something hangs."""


class Request(NamedTuple):
    """A request: its path with the query, its headers by names in lower case, and the bytes of its body."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """A response. Its body is sent in HTTP chunks, unless its headers have a content-length."""

    chunks: Sequence[object]
    status: int = 200
    headers: dict[str, str] | None = field(default_factory=lambda: {"content-type": "application/json"})
    """With None, no status and no headers are sent."""


UNANSWERED = Answer([SILENCE], headers=None)
CLOSED = Answer([DROP], headers=None)
Script = Answer | Callable[[Request], Answer]


class Server(ThreadingHTTPServer):
    """The server, with a thread for each connection.

    It prints nothing about clients that disconnect, because commands under test write to the same stderr.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, answers: Sequence[Script], port: int = 0) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """Return the URL without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def bodies(self) -> list[object]:
        """Return the JSON of every request's body."""
        return [json.loads(request.body) for request in self.requests]

    def answer_to(self, request: Request) -> Answer:
        """Keep a request, and return the answer to it."""
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Answer) else answer(request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note a connection, and serve it in a thread."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close the server, and the connections that clients still hold."""
        super().server_close()
        for connection in tuple(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print an error of the test's own. A client that disconnected is not an error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # the head is one write with the first chunk
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""

    def do_POST(self) -> None:
        body = self._read_body()
        if body is None:
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.answer_to(Request(self.path, headers, body))
        try:
            self._send(answer)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST  # noqa: N815 - the name that http.server asks for
    do_HEAD = do_POST  # noqa: N815 - the name that http.server asks for

    def _read_body(self) -> bytes | None:
        """Return the body, or None if the client was killed before it had sent the whole body."""
        if self.headers.get("transfer-encoding") == "chunked":
            return b"".join(self._read_chunks())
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        return body if len(body) == length else None

    def _read_chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, answer: Answer) -> None:
        is_chunked = "content-length" not in (answer.headers or {})
        if answer.headers is not None:
            framing = {"transfer-encoding": "chunked"} if is_chunked else {}
            self.send_response_only(answer.status)
            for name, value in {**answer.headers, **framing}.items():
                self.send_header(name, value)
            self.end_headers()
        if self.command == "HEAD":
            return  # such a response has no body; a client would take a body for the next response
        for chunk in answer.chunks:
            if isinstance(chunk, bytes):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
                self.wfile.flush()
            elif chunk is DROP or chunk is SILENCE:
                self._break_off(chunk)
                return
            else:
                self.wfile.flush()  # the head, if it has not been sent yet
                _pause(chunk)
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _break_off(self, chunk: object) -> None:
        self.wfile.flush()
        if chunk is SILENCE:
            self._keep_silent()
        self.close_connection = True

    def _keep_silent(self) -> None:
        """Send nothing until the client closes the connection."""
        select.select([self.connection], [], [], HANG_SECONDS)
        self.close_connection = True


def _pause(chunk: object) -> None:
    if callable(chunk):
        chunk()
    else:
        time.sleep(float(chunk))  # type: ignore[arg-type]


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Serve in a thread during a block."""
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.002))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(*answers: Script, port: int = 0) -> Iterator[Server]:
    """Run a server during a block, on a free port unless a port is given."""
    server = Server(answers, port)
    with running(server):
        yield server


def free_port() -> int:
    """Return the number of a port that no process listens on.

    The system gives ports from 32768 on to connections and to servers without a port of their own, so one of those may
    be taken at any moment. A port below is taken only by a process that asks for it.
    """
    while True:
        port = SystemRandom().randrange(10_000, 32_768)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def whole(body: bytes, status: int = 200, media: str = "application/json", **headers: str) -> Answer:
    """Return an answer that states its length."""
    return Answer([body], status, {"content-type": media, "content-length": str(len(body)), **headers})


def plain(body: object, status: int = 200, **headers: str) -> Answer:
    """Return a JSON answer."""
    return Answer([json.dumps(body).encode()], status, {"content-type": "application/json", **headers})


def stream(*chunks: object, **headers: str) -> Answer:
    """Return a server-sent stream."""
    return Answer(chunks, 200, {"content-type": "text/event-stream", **headers})


CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m-2025",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-2025",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
GENERATED = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4},
    "modelVersion": "gemini-2025",
    "responseId": "r1",
}
OLLAMA = {
    "model": "llama",
    "created_at": "2025-01-01T00:00:00Z",
    "message": {"role": "assistant", "content": "hi"},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 3,
    "eval_count": 1,
}


def chat_chunk(text: str | None, finish: str | None = None) -> bytes:
    """Return one event of an OpenAI chat stream."""
    delta = {} if text is None else {"content": text}
    chunk = {
        "id": "chatcmpl-2",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m-2025",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


CHAT_STREAM = (chat_chunk("Grü"), chat_chunk("ße"), chat_chunk(None, "stop"), b"data: [DONE]\n\n")
