"""The dialect of OpenAI's Responses API: POST /v1/responses."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from examples.demo.dialects.exchange import Exchange, Payload, RefusedError, is_signed, pieces, signature, sse, tokens
from examples.demo.dialects.openai_chat import problem, streams
from examples.demo.policy import Call, Conversation, Seen

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

__all__ = ["STREAM_TYPE", "answer", "owns", "problem", "read", "stream", "streams"]

PATH = "/v1/responses"
STREAM_TYPE = "text/event-stream; charset=utf-8"


def owns(path: str, headers: Container[str]) -> bool:  # noqa: ARG001 - the signature is that of all dialects
    """Return whether a request is for this dialect."""
    return path == PATH


def read(path: str, body: Payload) -> Conversation:  # noqa: ARG001 - `owns` lets only one path through
    """Return the conversation in a request. Raise RefusedError for a call without its output, as OpenAI does."""
    items = [item for item in body["input"] if isinstance(item, dict)] if isinstance(body["input"], list) else []
    results = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    asked = [item for item in items if item.get("type") == "function_call"]
    for item in asked:
        if item["call_id"] not in results:
            raise RefusedError(400, f"No tool output found for function call {item['call_id']}.")
    for item in items:
        if item.get("encrypted_content") and not is_signed(_summary(item), item["encrypted_content"]):
            raise RefusedError(400, "The encrypted content could not be verified.")
    seen = tuple(Seen(Call(item["name"], json.loads(item["arguments"])), results[item["call_id"]]) for item in asked)
    return Conversation(frozenset(tool["name"] for tool in body.get("tools") or ()), seen)


def _summary(item: Payload) -> str:
    return "".join(part["text"] for part in item["summary"])


def answer(exchange: Exchange) -> Payload:
    """Return the whole answer."""
    finished = {"status": "completed", "completed_at": int(time.time()), "usage": _usage(exchange)}
    return _head(exchange) | finished | {"output": _output(exchange)}


def stream(exchange: Exchange) -> Iterator[bytes]:
    """Yield the same answer as events: each item is announced, filled in pieces, and given whole at its end."""
    for number, event in enumerate(_events(exchange)):
        yield sse({"type": event["type"], "sequence_number": number} | event, event["type"])


def _events(exchange: Exchange) -> Iterator[Payload]:
    yield {"type": "response.created", "response": _head(exchange)}
    yield {"type": "response.in_progress", "response": _head(exchange)}
    for index, item in enumerate(_output(exchange)):
        begun = _BEGUN[item["type"]]
        place = {"output_index": index}
        yield {"type": "response.output_item.added", "item": item | begun} | place
        for event in _FILL[item["type"]](item):
            yield event | place | {"item_id": item["id"]}
        yield {"type": "response.output_item.done", "item": item} | place
    yield {"type": "response.completed", "response": answer(exchange)}


def _fill_reasoning(item: Payload) -> Iterator[Payload]:
    for index, part in enumerate(item["summary"]):
        place, name = {"summary_index": index}, "response.reasoning_summary"
        yield {"type": f"{name}_part.added", "part": part | {"text": ""}} | place
        for piece in pieces(part["text"]):
            yield {"type": f"{name}_text.delta", "delta": piece} | place
        yield {"type": f"{name}_text.done", "text": part["text"]} | place
        yield {"type": f"{name}_part.done", "part": part} | place


def _fill_message(item: Payload) -> Iterator[Payload]:
    for index, part in enumerate(item["content"]):
        place = {"content_index": index}
        yield {"type": "response.content_part.added", "part": part | {"text": ""}} | place
        for piece in pieces(part["text"]):
            yield {"type": "response.output_text.delta", "delta": piece, "logprobs": []} | place
        yield {"type": "response.output_text.done", "text": part["text"], "logprobs": []} | place
        yield {"type": "response.content_part.done", "part": part} | place


def _fill_call(item: Payload) -> Iterator[Payload]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {
        "type": "response.function_call_arguments.done",
        "name": item["name"],
        "arguments": item["arguments"],
    }


_FILL = {"reasoning": _fill_reasoning, "message": _fill_message, "function_call": _fill_call}
_BEGUN: dict[str, Payload] = {
    "reasoning": {"summary": []},
    "message": {"status": "in_progress", "content": []},
    "function_call": {"status": "in_progress", "arguments": ""},
}


def _output(exchange: Exchange) -> list[Payload]:
    text = {"type": "output_text", "text": exchange.action.text, "annotations": [], "logprobs": []}
    message = {"id": exchange.ident("msg_"), "type": "message", "role": "assistant", "status": "completed"}
    items = [_reasoning(exchange)] if exchange.body.get("reasoning") else []
    items.append(message | {"content": [text]})
    for part, (call, arguments) in enumerate(zip(exchange.action.calls, exchange.call_arguments, strict=True)):
        ids = {"id": exchange.ident("fc_", part), "call_id": exchange.ident("call_", part)}
        items.append(ids | {"type": "function_call", "status": "completed", "name": call.name, "arguments": arguments})
    return items


def _reasoning(exchange: Exchange) -> dict[str, Payload]:
    text = exchange.action.reasoning
    item = {"id": exchange.ident("rs_"), "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
    if "reasoning.encrypted_content" in (exchange.body.get("include") or ()):
        item["encrypted_content"] = signature(text)
    return item


_ECHOED: dict[str, Payload] = {
    "instructions": None,
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "metadata": {},
}
"""Return the members of a request that its answer repeats, with defaults for missing members."""


def _head(exchange: Exchange) -> dict[str, Payload]:
    return {
        "id": exchange.ident("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": exchange.body["model"],
        "output": [],
        "error": None,
        "incomplete_details": None,
        "service_tier": "default",
        "usage": None,
    } | {name: exchange.body.get(name, value) for name, value in _ECHOED.items()}


def _usage(exchange: Exchange) -> Payload:
    thought = exchange.reasoning_tokens if exchange.body.get("reasoning") else 0
    sent = tokens(exchange.body["input"]) + tokens(exchange.body.get("tools") or [])
    output_tokens = exchange.output_tokens + thought
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": sent + output_tokens,
    }
