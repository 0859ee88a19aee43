"""Seven providers on 127.0.0.1, at seven addresses of one server, with the same small model behind them all.

How things are written is the demo's (`examples/demo/dialects`); what three of OpenAI's likes add to its dialect is
added here. The model counts the lines of text files, with the tools of `examples/clients/one_agent.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from examples.demo.dialects import anthropic_messages, gemini, ollama_chat, openai_chat, openai_responses
from examples.demo.dialects.exchange import Dialect, Exchange
from examples.demo.policy import Action, Call, Conversation
from tests.local_server import LocalServer, running
from trace_recorder.clients import Client, create_client

Payload = Any
LISTED = re.compile(r"\w+\.txt")
THINKING: dict[str, Payload] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "google": {"thinking_config": {"include_thoughts": True}},
    "ollama": {"think": True},
    "openai-responses": {
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    },
}
"""The parameters with which each provider returns reasoning."""

_ROUTES: tuple[tuple[str, Dialect, str], ...] = (
    # (how the path begins, the dialect, the dialect's own path)
    ("/openai/v1/chat", openai_chat, openai_chat.PATH),
    ("/openai/v1/responses", openai_responses, openai_responses.PATH),
    ("/azure/", openai_chat, openai_chat.PATH),
    ("/doubao/", openai_chat, openai_chat.PATH),
    ("/openrouter/", openai_chat, openai_chat.PATH),
    ("/anthropic/", anthropic_messages, anthropic_messages.PATH),
    ("/google/", gemini, "/v1beta/models/m:{method}"),
    ("/ollama/", ollama_chat, ollama_chat.PATH),
)


def decide(conversation: Conversation) -> Action:
    """List the files; count the lines of each, side by side; add; say it."""
    seen = {each.call.name: each.result for each in conversation.seen}
    counts = [int(each.result) for each in conversation.seen if each.call.name == "count_lines"]
    if "list_files" not in seen:
        return Action("First the files.", "I look at the files.", (Call("list_files", {"directory": "."}),))
    if not counts:
        calls = (Call("count_lines", {"path": path}) for path in LISTED.findall(seen["list_files"]))
        return Action("Both at once.", "Now their lines.", tuple(calls))
    if "add" not in seen:
        numbers: Payload = {"numbers": counts}
        return Action("A sum is left.", "I add them.", (Call("add", numbers),))
    return Action("That is all.", f"They have {seen['add']} lines together.")


@dataclass
class Provider:
    """The running server: where it is, and what it was asked."""

    url: str
    bodies: list[Payload] = field(default_factory=list)

    def client(self, provider: str, **options: Any) -> Client:
        """The client of a provider, at its address here."""
        return create_client(provider, "m", **{**self.options(provider), **options})

    def options(self, provider: str) -> dict[str, Any]:
        """The options with which a client uses this server."""
        address = f"{self.url}/{provider}"
        return {
            "openai": {"api_key": "k", "base_url": f"{address}/v1"},
            "azure": {"api_key": "k", "azure_endpoint": address, "api_version": "2024-10-21"},
            "doubao": {"api_key": "k", "base_url": f"{address}/api/v3"},
            "openrouter": {"api_key": "k", "base_url": f"{address}/api/v1"},
            "anthropic": {"api_key": "k", "base_url": address},
            "google": {"api_key": "k", "http_options": {"base_url": address}},
            "ollama": {"host": address},
        }[provider]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return

    def do_POST(self) -> None:
        provider: Provider = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        provider.bodies.append(body)
        asked = self.path.partition("?")[0]
        begin, dialect, path = next(route for route in _ROUTES if asked.startswith(route[0]))
        path = path.format(method=asked.rpartition(":")[2])
        exchange = Exchange(len(provider.bodies), path, body, decide(dialect.read(path, body)))
        add = _ADDED.get(begin.strip("/"))
        if dialect.streams(exchange):
            self._send(dialect.STREAM_TYPE, b"".join(map(_streamed(add, exchange), dialect.stream(exchange))))
        else:
            answer = dialect.answer(exchange)
            if add:
                answer["choices"][0]["message"] |= add(exchange)
            self._send("application/json", json.dumps(answer).encode())

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _streamed(add: Any, exchange: Exchange) -> Any:
    """The chunks of a stream, of which the first delta has what a provider adds."""

    def chunk(data: bytes) -> bytes:
        if add is None or b'"refusal"' not in data:
            return data
        event = json.loads(data.removeprefix(b"data: "))
        event["choices"][0]["delta"] |= add(exchange)
        return b"data: " + json.dumps(event).encode() + b"\n\n"

    return chunk


def _doubao(exchange: Exchange) -> Payload:
    return {"reasoning_content": exchange.action.reasoning}


def _openrouter(exchange: Exchange) -> Payload:
    text = exchange.action.reasoning
    detail = {"type": "reasoning.text", "text": text, "signature": "sig", "format": "anthropic-claude-v1", "index": 0}
    return {"reasoning": text, "reasoning_details": [detail]}


_ADDED = {"doubao": _doubao, "openrouter": _openrouter}


@contextmanager
def providing() -> Iterator[Provider]:
    """Run the server for the time of a test."""
    http = LocalServer(_Handler)
    provider = Provider(http.url)
    http.state = provider  # type: ignore[attr-defined]
    with running(http):
        yield provider
