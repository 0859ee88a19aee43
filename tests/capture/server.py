"""A local HTTP server that answers with what a test gives it, byte for byte, and keeps what it was asked.

Answers are given in order; the last one is given again and again. A chunk may be bytes, a number of seconds to
pause, DROP, which cuts the connection, or SILENCE, after which nothing comes for as long as the caller holds on.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.local_server import LocalServer, running

DROP = object()
SILENCE = object()
HANG_SECONDS = 300.0
"""For so long a caller may hold on to a silent server: no test waits for that unless something hangs."""


@dataclass(frozen=True)
class Answer:
    """One response."""

    chunks: Sequence[object]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    silent: bool = False
    """Whether not even the headers are sent, for as long as the caller holds on."""


@dataclass
class Server:
    """The running server: its address, and what it was asked."""

    url: str
    answers: list[Answer]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def bodies(self) -> list[object]:
        """The JSON of every request's body."""
        return [json.loads(body) for _, _, body in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return

    def do_POST(self) -> None:
        server: Server = self.server.state  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if answer.silent:
            self._keep_silent()
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        try:
            self.end_headers()
            self._send(answer.chunks)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def _send(self, chunks: Sequence[object]) -> None:
        for chunk in chunks:
            if chunk is DROP:
                self.close_connection = True
                return
            if chunk is SILENCE:
                self._keep_silent()
                return
            if isinstance(chunk, bytes):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            else:
                time.sleep(float(chunk))  # type: ignore[arg-type]
        self.wfile.write(b"0\r\n\r\n")

    def _keep_silent(self) -> None:
        """Send nothing until the caller closes the connection, which is all that it can still say."""
        select.select([self.connection], [], [], HANG_SECONDS)
        self.close_connection = True


@contextmanager
def serving(*answers: Answer) -> Iterator[Server]:
    """Run a server for the time of a test."""
    http = LocalServer(_Handler)
    server = Server(http.url, list(answers))
    http.state = server  # type: ignore[attr-defined]
    with running(http):
        yield server


def plain(body: object, status: int = 200, **headers: str) -> Answer:
    """A JSON answer."""
    return Answer([json.dumps(body).encode()], status, {"content-type": "application/json", **headers})


def stream(*chunks: object, **headers: str) -> Answer:
    """A server-sent stream."""
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
    """One event of an OpenAI chat stream."""
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
