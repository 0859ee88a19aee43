"""The dialect of Gemini: POST /v1beta/models/MODEL:generateContent and :streamGenerateContent?alt=sse."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from examples.demo.dialects.exchange import Exchange, Payload, RefusedError, is_signed, pieces, signature, sse, tokens
from examples.demo.policy import Call, Conversation, Seen

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PATH = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(generateContent|streamGenerateContent)")
STREAM_TYPE = "text/event-stream"
STATUS_NAMES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


def owns(path: str, headers: Container[str]) -> bool:
    """Return whether a request is for this dialect."""
    return path.startswith("/v1beta/") or "x-goog-api-key" in headers


def problem(status: int, message: str) -> Payload:
    """Return the body of an error."""
    return {"error": {"code": status, "message": message, "status": STATUS_NAMES[status]}}


def streams(exchange: Exchange) -> bool:
    """Return whether the request asks for a stream."""
    return exchange.path.endswith(":streamGenerateContent")


def read(path: str, body: Payload) -> Conversation:
    """Return the conversation in a request.

    Calls have no ids here, so responses are matched to calls by their order.
    """
    if not PATH.fullmatch(path):
        raise RefusedError(404, f"Path {path} was not found.")
    seen: list[Seen] = []
    waiting: list[Call] = []
    for content in body["contents"]:
        asked = [part for part in content["parts"] if "functionCall" in part]
        if asked and not is_signed(json.dumps(asked[0]["functionCall"]["args"]), asked[0].get("thoughtSignature")):
            raise RefusedError(400, "Function call is missing a valid thought_signature.")
        waiting += [Call(part["functionCall"]["name"], part["functionCall"]["args"]) for part in asked]
        answers = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if answers and [response["name"] for response in answers] != [call.name for call in waiting]:
            raise RefusedError(400, "The function response parts must be those of the function call turn.")
        seen += [Seen(call, _text(response)) for call, response in zip(waiting, answers, strict=False)]
        waiting = [] if answers else waiting
    tools = body.get("tools") or ()
    return Conversation(frozenset(d["name"] for tool in tools for d in tool["functionDeclarations"]), tuple(seen))


def _text(response: Payload) -> str:
    told = response["response"]
    return str(told.get("result", told.get("error", told)))


def answer(exchange: Exchange) -> Payload:
    """Return the whole answer."""
    thoughts = [_thought(exchange.action.reasoning)] if _shows_thoughts(exchange) else []
    parts = [*thoughts, {"text": exchange.action.text}, *_calls(exchange)]
    return _response(exchange, parts, finish="STOP")


def stream(exchange: Exchange) -> Iterator[bytes]:
    """Yield the same answer in chunks: text in pieces, each call whole, and cumulative usage on every chunk."""
    if _shows_thoughts(exchange):
        for piece in pieces(exchange.action.reasoning):
            yield sse(_response(exchange, [_thought(piece)]))
    for piece in pieces(exchange.action.text):
        yield sse(_response(exchange, [{"text": piece}]))
    for part in _calls(exchange):
        yield sse(_response(exchange, [part]))
    yield sse(_response(exchange, [{"text": ""}], finish="STOP"))


def _response(exchange: Exchange, parts: list[Payload], finish: str | None = None) -> Payload:
    candidate: dict[str, Payload] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    found = PATH.fullmatch(exchange.path)
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(exchange),
        "modelVersion": found[1] if found else None,
        "responseId": exchange.ident("local"),
    }


def _thought(text: str) -> Payload:
    return {"text": text, "thought": True}


def _calls(exchange: Exchange) -> list[Payload]:
    """Sign only the first of parallel calls."""
    parts: list[Payload] = [{"functionCall": {"name": c.name, "args": c.arguments}} for c in exchange.action.calls]
    if parts:
        parts[0]["thoughtSignature"] = signature(exchange.call_arguments[0])
    return parts


def _shows_thoughts(exchange: Exchange) -> bool:
    """Return a member of an object in either spelling, because the SDK writes both."""
    thinking = (exchange.body.get("generationConfig") or {}).get("thinkingConfig") or {}
    return bool(thinking.get("includeThoughts", thinking.get("include_thoughts")))


def _usage(exchange: Exchange) -> Payload:
    sent = tokens(exchange.body["contents"]) + tokens(exchange.body.get("tools") or [])
    return {
        "promptTokenCount": sent,
        "candidatesTokenCount": exchange.output_tokens,
        "totalTokenCount": sent + exchange.output_tokens + exchange.reasoning_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": sent}],
        "thoughtsTokenCount": exchange.reasoning_tokens,
    }
