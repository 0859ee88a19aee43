"""The dialect of Ollama's chat: POST /api/chat. It streams by default, one JSON object in each line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from examples.demo.dialects.exchange import Exchange, Payload, RefusedError, pieces, tokens
from examples.demo.policy import Call, Conversation, Seen

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PATH = "/api/chat"
STREAM_TYPE = "application/x-ndjson"
NANOSECONDS_PER_TOKEN = 10_000_000


def owns(path: str, headers: Container[str]) -> bool:  # noqa: ARG001 - the signature is that of all dialects
    """Return whether a request is for this dialect."""
    return path.startswith("/api/")


def problem(status: int, message: str) -> Payload:  # noqa: ARG001 - the status stands in the response's head only
    """Return the body of an error."""
    return {"error": message}


def streams(exchange: Exchange) -> bool:
    """Return whether the request asks for a stream."""
    return exchange.body.get("stream") is not False


def read(path: str, body: Payload) -> Conversation:
    """Return the conversation in a request. Calls have no ids here, so results are matched to calls by their order."""
    if path != PATH:
        raise RefusedError(404, f"{path} not found")
    asked = [
        Call(call["function"]["name"], call["function"]["arguments"])
        for message in body["messages"]
        for call in message.get("tool_calls") or ()
    ]
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if len(asked) != len(results):
        raise RefusedError(400, f"{len(asked)} tool calls, but {len(results)} tool messages")
    seen = tuple(Seen(call, result) for call, result in zip(asked, results, strict=True))
    return Conversation(frozenset(tool["function"]["name"] for tool in body.get("tools") or ()), seen)


def answer(exchange: Exchange) -> Payload:
    """Return the whole answer."""
    message: dict[str, Payload] = {"content": exchange.action.text}
    if exchange.body.get("think"):
        message["thinking"] = exchange.action.reasoning
    if exchange.action.calls:
        message["tool_calls"] = _calls(exchange)
    return _line(exchange, message) | _end(exchange)


def stream(exchange: Exchange) -> Iterator[bytes]:
    """Yield the same answer in lines: thinking, words, each call whole, and the counts at the end."""
    if exchange.body.get("think"):
        for piece in pieces(exchange.action.reasoning):
            yield _ndjson(_line(exchange, {"content": "", "thinking": piece}))
    for piece in pieces(exchange.action.text):
        yield _ndjson(_line(exchange, {"content": piece}))
    for call in _calls(exchange):
        yield _ndjson(_line(exchange, {"content": "", "tool_calls": [call]}))
    yield _ndjson(_line(exchange, {"content": ""}) | _end(exchange))


def _ndjson(line: Payload) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _line(exchange: Exchange, message: dict[str, Payload]) -> Payload:
    created = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    message = {"role": "assistant"} | message
    return {"model": exchange.body["model"], "created_at": created, "message": message, "done": False}


def _calls(exchange: Exchange) -> list[Payload]:
    return [
        {"function": {"index": index, "name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(exchange.action.calls)
    ]


def _end(exchange: Exchange) -> Payload:
    sent = tokens(exchange.body["messages"]) + tokens(exchange.body.get("tools") or [])
    output_tokens = exchange.output_tokens + (exchange.reasoning_tokens if exchange.body.get("think") else 0)
    return {
        "done": True,
        "done_reason": "stop",
        "total_duration": (sent + output_tokens) * NANOSECONDS_PER_TOKEN,
        "load_duration": 0,
        "prompt_eval_count": sent,
        "prompt_eval_duration": sent * NANOSECONDS_PER_TOKEN,
        "eval_count": output_tokens,
        "eval_duration": output_tokens * NANOSECONDS_PER_TOKEN,
    }
