"""The dialect of Anthropic's messages: POST /v1/messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from examples.demo.dialects.exchange import Exchange, Payload, RefusedError, is_signed, pieces, signature, sse, tokens
from examples.demo.policy import Call, Conversation, Seen

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PATH = "/v1/messages"
STREAM_TYPE = "text/event-stream; charset=utf-8"
ERROR_TYPES = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}


def owns(path: str, headers: Container[str]) -> bool:
    """Return whether a request is for this dialect."""
    return path.startswith(PATH) or "anthropic-version" in headers


def problem(status: int, message: str) -> Payload:
    """Return the body of an error."""
    return {"type": "error", "error": {"type": ERROR_TYPES[status], "message": message}, "request_id": None}


def streams(exchange: Exchange) -> bool:
    """Return whether the request asks for a stream."""
    return bool(exchange.body.get("stream"))


def read(path: str, body: Payload) -> Conversation:
    """Return the conversation in a request. Raise RefusedError for changed thinking, and for calls without a result."""
    if path != PATH:
        raise RefusedError(404, "Not found")
    blocks = [block for m in body["messages"] if isinstance(m["content"], list) for block in m["content"]]
    for block in blocks:
        if block["type"] == "thinking" and not is_signed(block["thinking"], block["signature"]):
            raise RefusedError(400, "Invalid `signature` in `thinking` block")
    results = {block["tool_use_id"]: _text(block["content"]) for block in blocks if block["type"] == "tool_result"}
    asked = [block for block in blocks if block["type"] == "tool_use"]
    missing = [block["id"] for block in asked if block["id"] not in results]
    if missing:
        raise RefusedError(400, f"`tool_use` ids were found without `tool_result` blocks: {', '.join(missing)}")
    seen = tuple(Seen(Call(block["name"], block["input"]), results[block["id"]]) for block in asked)
    return Conversation(frozenset(tool["name"] for tool in body.get("tools") or ()), seen)


def _text(content: Payload) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def answer(exchange: Exchange) -> Payload:
    """Return the whole answer."""
    finished = {"content": _blocks(exchange), "stop_reason": _stop_reason(exchange), "usage": _usage(exchange)}
    return _head(exchange) | finished


def stream(exchange: Exchange) -> Iterator[bytes]:
    """Yield the same answer as events: each block is opened, filled by deltas, and closed."""
    for event in _events(exchange):
        yield sse(event, event["type"])


def _events(exchange: Exchange) -> Iterator[Payload]:
    usage = _usage(exchange)
    yield {"type": "message_start", "message": _head(exchange) | {"usage": usage | {"output_tokens": 1}}}
    yield {"type": "ping"}
    for index, block in enumerate(_blocks(exchange)):
        yield {"type": "content_block_start", "index": index, "content_block": block | _EMPTY[block["type"]]}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": _stop_reason(exchange), "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


_EMPTY: dict[str, Payload] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def _deltas(block: Payload) -> Iterator[Payload]:
    if block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
    else:
        arguments = json.dumps(block["input"])
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(arguments)))


def _blocks(exchange: Exchange) -> list[Payload]:
    blocks: list[Payload] = [{"type": "text", "text": exchange.action.text}]
    if (exchange.body.get("thinking") or {}).get("type") in {"enabled", "adaptive"}:
        thought = exchange.action.reasoning
        blocks.insert(0, {"type": "thinking", "thinking": thought, "signature": signature(thought)})
    for part, call in enumerate(exchange.action.calls):
        identity = {"type": "tool_use", "id": exchange.ident("toolu_", part)}
        blocks.append(identity | {"name": call.name, "input": call.arguments})
    return blocks


def _head(exchange: Exchange) -> dict[str, Payload]:
    return {
        "id": exchange.ident("msg_"),
        "type": "message",
        "role": "assistant",
        "model": exchange.body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(exchange: Exchange) -> str:
    return "tool_use" if exchange.action.calls else "end_turn"


def _usage(exchange: Exchange) -> dict[str, Payload]:
    """Return the usage.

    `input_tokens` lacks cached tokens: the prompt is written to the cache once, then read from it.
    """
    body = exchange.body
    prompt = tokens(body.get("system") or "") + tokens(body.get("tools") or [])
    cached = prompt if "cache_control" in str(body.get("system")) else 0
    first = len(body["messages"]) == 1
    return {
        "input_tokens": tokens(body["messages"]) + prompt - cached,
        "cache_creation_input_tokens": cached if first else 0,
        "cache_read_input_tokens": 0 if first else cached,
        "output_tokens": exchange.output_tokens + exchange.reasoning_tokens,
        "service_tier": "standard",
    }
