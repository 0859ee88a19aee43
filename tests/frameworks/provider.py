"""One local server that speaks every dialect, and says in the one it is asked in what a test has written down for it.

How things are written is the demo's (`examples/demo/dialects`), which refuses what a provider would refuse, such as a
call without its result. The server keeps every request and, byte for byte, what it answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from examples.demo.dialects import anthropic_messages, gemini, ollama_chat, openai_chat, openai_responses
from examples.demo.dialects.exchange import Dialect, Exchange, Payload, RefusedError
from examples.demo.policy import Action, Call
from tests.local_server import LocalServer, running

DIALECTS: tuple[Dialect, ...] = (anthropic_messages, gemini, ollama_chat, openai_responses, openai_chat)
SNAKES = re.compile(r'"(function)_(call|response|declarations)":')
"""Names of Gemini's that LiteLLM writes as their protocol buffers do, which is as good."""
SCRIPT = (
    Action("I have to look.", "I look outside.", (Call("get_weather", {"city": "Tokyo"}),)),
    Action("That is all.", "It is sunny in Tokyo."),
)
"""What the model says in a run of two turns: a call of the tool, then the answer."""


@dataclass(frozen=True)
class Sent:
    """One exchange as it went over the wire."""

    path: str
    body: Payload
    answer: bytes
    streamed: bool


@dataclass
class Provider:
    """The running server: its address, what it is to say, and what went over the wire."""

    url: str
    script: Sequence[Action]
    sent: list[Sent] = field(default_factory=list)

    def addresses(self) -> dict[str, str]:
        """The environment in which SDKs and frameworks take this server for every provider."""
        return {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_BASE": f"{self.url}/v1",
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": self.url,
            "GEMINI_API_KEY": "k",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GEMINI_API_BASE": f"{self.url}/v1beta",
            "OLLAMA_HOST": self.url,
            "OLLAMA_API_BASE": self.url,
            "OLLAMA_BASE_URL": f"{self.url}/v1",
        }

    def answer(self, path: str, names: set[str], body: Payload) -> tuple[int, str, bytes]:
        """What is said to one request, as a status, a media type and bytes; it is kept."""
        action = self.script[min(len(self.sent), len(self.script) - 1)]
        exchange = Exchange(len(self.sent) + 1, path, body, action)
        dialect = next(one for one in DIALECTS if one.owns(path, names))
        try:
            dialect.read(path, json.loads(SNAKES.sub(_camel, json.dumps(body))))
        except RefusedError as refused:
            said = (
                refused.status,
                "application/json",
                json.dumps(dialect.problem(refused.status, str(refused))).encode(),
            )
        else:
            said = 200, *_written(dialect, exchange)
        self.sent.append(Sent(path, body, said[2], streamed=said[1] != "application/json"))
        return said


def _camel(name: re.Match[str]) -> str:
    return f'"{name[1]}{name[2].capitalize()}":'


def _written(dialect: Dialect, exchange: Exchange) -> tuple[str, bytes]:
    if dialect.streams(exchange):
        return dialect.STREAM_TYPE, b"".join(dialect.stream(exchange))
    return "application/json", json.dumps(dialect.answer(exchange)).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return

    def do_POST(self) -> None:
        provider: Provider = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = {name.lower() for name in self.headers}
        status, media, data = provider.answer(self.path.partition("?")[0], names, body)
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def providing(script: Sequence[Action] = SCRIPT) -> Iterator[Provider]:
    """Run the server for the time of a run."""
    http = LocalServer(_Handler)
    provider = Provider(http.url, script)
    http.state = provider  # type: ignore[attr-defined]
    with running(http):
        yield provider
