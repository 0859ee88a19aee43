"""The dialect of OpenAI's chat completions: POST /v1/chat/completions."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from examples.demo.dialects.exchange import Exchange, Payload, RefusedError, pieces, sse, tokens
from examples.demo.policy import Call, Conversation, Seen

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PATH = "/v1/chat/completions"
STREAM_TYPE = "text/event-stream; charset=utf-8"
ERROR_TYPES = {404: "invalid_request_error", 400: "invalid_request_error", 429: "rate_limit_error"}


def owns(path: str, headers: Container[str]) -> bool:  # noqa: ARG001 - the signature is that of all dialects
    """Return True for every path below /v1 that no other dialect claims."""
    return path.startswith("/v1/")


def problem(status: int, message: str) -> Payload:
    """Return the body of an error."""
    return {"error": {"message": message, "type": ERROR_TYPES[status], "param": None, "code": None}}


def streams(exchange: Exchange) -> bool:
    """Return whether the request asks for a stream."""
    return bool(exchange.body.get("stream"))


def read(path: str, body: Payload) -> Conversation:
    """Return the conversation in a request. Raise RefusedError for a call without its tool message, as OpenAI does."""
    if path != PATH:
        raise RefusedError(404, f"Invalid URL (POST {path})")
    asked = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
    results = {m["tool_call_id"]: m["content"] for m in body["messages"] if m["role"] == "tool"}
    missing = [call["id"] for call in asked if call["id"] not in results]
    if missing:
        raise RefusedError(400, f"These tool_call_ids have no response message: {', '.join(missing)}")
    seen = tuple(Seen(_call(call["function"]), results[call["id"]]) for call in asked)
    return Conversation(frozenset(tool["function"]["name"] for tool in body.get("tools") or ()), seen)


def _call(function: Payload) -> Call:
    return Call(function["name"], json.loads(function["arguments"]))


def answer(exchange: Exchange) -> Payload:
    """Return the whole answer."""
    message: dict[str, Payload] = {"role": "assistant", "content": exchange.action.text, "refusal": None}
    if exchange.action.calls:
        message["tool_calls"] = _tool_calls(exchange)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(exchange)}
    return _head(exchange, "chat.completion") | {"choices": [choice], "usage": _usage(exchange)}


def stream(exchange: Exchange) -> Iterator[bytes]:
    """Yield the same answer in deltas. Usage, if the request asks for it, comes last in a chunk without choices."""
    with_usage = (exchange.body.get("stream_options") or {}).get("include_usage")
    head = _head(exchange, "chat.completion.chunk") | ({"usage": None} if with_usage else {})
    for delta in _deltas(exchange):
        yield sse(head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]})
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(exchange)}
    yield sse(head | {"choices": [last]})
    if with_usage:
        yield sse(head | {"choices": [], "usage": _usage(exchange)})
    yield b"data: [DONE]\n\n"


def _deltas(exchange: Exchange) -> Iterator[Payload]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for piece in pieces(exchange.action.text):
        yield {"content": piece}
    for index, call in enumerate(_tool_calls(exchange)):
        function = call["function"]
        yield {"tool_calls": [{"index": index} | call | {"function": {"name": function["name"], "arguments": ""}}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _head(exchange: Exchange, kind: str) -> dict[str, Payload]:
    return {
        "id": exchange.ident("chatcmpl-"),
        "object": kind,
        "created": int(time.time()),
        "model": exchange.body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_local",
    }


def _tool_calls(exchange: Exchange) -> list[Payload]:
    written = zip(exchange.action.calls, exchange.call_arguments, strict=True)
    return [
        {"id": exchange.ident("call_", part), "type": "function", "function": {"name": call.name, "arguments": text}}
        for part, (call, text) in enumerate(written)
    ]


def _finish_reason(exchange: Exchange) -> str:
    return "tool_calls" if exchange.action.calls else "stop"


def _usage(exchange: Exchange) -> Payload:
    sent = tokens(exchange.body["messages"]) + tokens(exchange.body.get("tools") or [])
    return {
        "prompt_tokens": sent,
        "completion_tokens": exchange.output_tokens,
        "total_tokens": sent + exchange.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
