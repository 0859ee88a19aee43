"""A provider on 127.0.0.1 that speaks OpenAI's chat completions and answers what a script says, reply after reply."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.local_server import LocalServer, running

Json = Any


@dataclass(frozen=True)
class Reply:
    """What the model says to one request: text, reasoning, calls as (name, arguments); or a status that is an error."""

    text: str | None = None
    calls: Sequence[tuple[str, Json]] = ()
    reasoning: str | None = None
    status: int = 200
    seconds: float = 0.0
    extra: dict[str, Json] = field(default_factory=dict)


@contextmanager
def provider(script: Sequence[Reply]) -> Iterator[str]:
    """Serve the replies of a script in their order, the last one again and again; give the base URL."""
    server = _Server(script)
    with running(server):
        yield f"{server.url}/v1"


class _Server(LocalServer):
    def __init__(self, script: Sequence[Reply]) -> None:
        super().__init__(_Handler)
        self.script = script
        self.answered = 0

    def next_reply(self) -> tuple[int, Reply]:
        number = self.answered
        self.answered += 1
        return number, self.script[min(number, len(self.script) - 1)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, reply = self.server.next_reply()
        time.sleep(reply.seconds)
        if reply.status != 200:
            self._send(reply.status, {"error": {"message": reply.text, "type": "server_error", "code": None}})
        elif body.get("stream"):
            self._stream(_events(number, reply, body))
        else:
            self._send(200, _completion(number, reply, body))

    def _send(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Request-Id", "req_1")
        self.send_header("Retry-After-Ms", "20")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[Json]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Say nothing."""


def _message(number: int, reply: Reply) -> Json:
    calls = [
        {
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": name, "arguments": _arguments(arguments)},
        }
        for at, (name, arguments) in enumerate(reply.calls)
    ]
    message: Json = {"role": "assistant", "content": reply.text}
    return message | ({"tool_calls": calls} if calls else {}) | _reasoning(reply.reasoning)


def _arguments(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _reasoning(text: str | None) -> Json:
    return {"reasoning_content": text} if text else {}


def _usage(reply: Reply, body: Json) -> Json:
    prompt = len(json.dumps(body["messages"])) // 4
    cached = prompt // 128 * 128 if len(body["messages"]) > 3 else 0
    said = len(json.dumps([reply.text, reply.calls, reply.reasoning])) // 4
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said, **details}


def _completion(number: int, reply: Reply, body: Json) -> Json:
    choice = {
        "index": 0,
        "message": _message(number, reply),
        "finish_reason": "tool_calls" if reply.calls else "stop",
    }
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"]}
    return head | {"choices": [choice], "usage": _usage(reply, body)} | reply.extra


def _events(number: int, reply: Reply, body: Json) -> Iterator[Json]:
    def event(delta: Json, finish: str | None = None) -> Json:
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield event({"role": "assistant", "content": ""})
    for piece in _pieces(reply.reasoning):
        yield event({"reasoning_content": piece})
    for piece in _pieces(reply.text):
        yield event({"content": piece})
    for at, call in enumerate(_message(number, reply).get("tool_calls", [])):
        yield event({"tool_calls": [{"index": at, **call}]})
    yield event({}, "tool_calls" if reply.calls else "stop")
    yield event({}) | {"choices": [], "usage": _usage(reply, body)}


def _pieces(text: str | None) -> Iterator[str]:
    words = (text or "").split(" ")
    for at, word in enumerate(words):
        if word or at:
            yield word if at == 0 else f" {word}"
