"""Writes scripts in the providers' dialects: each request, and its answer, as a whole or as a stream.

Each dialect follows its provider's documentation, and uses no code of ours.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.contents.openai_wire import (
    chat_answer,
    chat_request,
    chat_stream,
    responses_answer,
    responses_request,
    responses_stream,
)
from tests.contents.script import Answer, Asked, Talk
from tests.contents.talk_parts import NAMES, SCHEMA, Body, before, calls_before, event, halves, ids, text64


@dataclass(frozen=True, slots=True)
class Dialect:
    """The URL of a call, and the functions that write its request and its answer."""

    url: Callable[[bool], str]
    request: Callable[[Talk, int], Body]
    answer: Callable[[Talk, str, Answer], Body]
    stream: Callable[[Talk, str, Answer], list[bytes]]
    media: str = "text/event-stream"


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────────────────────────────


def anthropic_request(talk: Talk, number: int) -> Body:
    messages: list[Body] = []
    for part, key in before(talk, number):
        if isinstance(part, Asked):
            source = {"type": "base64", "media_type": "image/png", "data": text64(part.image or b"")}
            image = [{"type": "image", "source": source}] if part.image else []
            messages.append({"role": "user", "content": [{"type": "text", "text": part.text}, *image]})
        elif isinstance(part, Answer):
            messages.append({"role": "assistant", "content": anthropic_blocks(talk, key, part)})
        else:
            pairs = zip(calls_before(talk, key), part, strict=True)
            given = [{"type": "tool_result", "tool_use_id": of, "content": result.text} for (of, _), result in pairs]
            messages.append({"role": "user", "content": given})
    tools = [{"name": name, "description": name, "input_schema": SCHEMA} for name in NAMES]
    return {"model": "m", "max_tokens": 100, "system": talk.system, "messages": messages, "tools": tools}


def anthropic_blocks(talk: Talk, key: str, answer: Answer) -> list[Body]:
    blocks: list[Body] = []
    if answer.thought:
        blocks.append({"type": "thinking", "thinking": answer.thought, "signature": "c2lnbmVk"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    for identity, call in zip(ids(talk, key, answer), answer.calls, strict=True):
        blocks.append({"type": "tool_use", "id": identity, "name": call.name, "input": dict(call.arguments)})
    return blocks


def anthropic_answer(talk: Talk, key: str, answer: Answer) -> Body:
    tokens = answer.tokens
    usage = {"input_tokens": tokens.prompt - tokens.cached, "output_tokens": tokens.output}
    usage |= {"cache_read_input_tokens": tokens.cached, "cache_creation_input_tokens": 0}
    head = {"id": f"msg_{talk.agent}{key}", "type": "message", "role": "assistant", "model": "m-1"}
    stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    return {**head, "content": anthropic_blocks(talk, key, answer), **stop, "usage": usage}


def anthropic_stream(talk: Talk, key: str, answer: Answer) -> list[bytes]:
    whole = anthropic_answer(talk, key, answer)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    events: list[Body] = [{"type": "message_start", "message": start}]
    for number, block in enumerate(whole["content"]):
        begun, deltas = _anthropic_deltas(block)
        events.append({"type": "content_block_start", "index": number, "content_block": begun})
        events += [{"type": "content_block_delta", "index": number, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": number})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": answer.tokens.output}})
    events.append({"type": "message_stop"})
    return [event(one, one["type"]) for one in events]


def _anthropic_deltas(block: Body) -> tuple[Body, list[Body]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in halves(block["text"])]
    if block["type"] == "thinking":
        thought = [{"type": "thinking_delta", "thinking": part} for part in halves(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*thought, signed]
    parts = halves(json.dumps(block["input"], ensure_ascii=False))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def google_request(talk: Talk, number: int) -> Body:
    contents: list[Body] = []
    for part, key in before(talk, number):
        if isinstance(part, Asked):
            data = base64.urlsafe_b64encode(part.image or b"").decode()  # in the form of google-genai
            image = [{"inlineData": {"mimeType": "image/png", "data": data}}] if part.image else []
            contents.append({"role": "user", "parts": [{"text": part.text}, *image]})
        elif isinstance(part, Answer):
            contents.append({"role": "model", "parts": google_parts(part)})
        else:
            pairs = zip(calls_before(talk, key), part, strict=True)
            given = [{"name": call.name, "response": {"result": result.text}} for (_, call), result in pairs]
            contents.append({"role": "user", "parts": [{"functionResponse": response} for response in given]})
    declared = [{"name": name, "description": name, "parameters": SCHEMA} for name in NAMES]
    system = {"role": "user", "parts": [{"text": talk.system}]}
    return {"contents": contents, "systemInstruction": system, "tools": [{"functionDeclarations": declared}]}


def google_parts(answer: Answer) -> list[Body]:
    parts: list[Body] = [{"text": answer.thought, "thought": True}] if answer.thought else []
    parts += [{"text": answer.text}] if answer.text else []
    return parts + [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in answer.calls]


def google_answer(talk: Talk, key: str, answer: Answer) -> Body:
    return _google(talk, key, answer, google_parts(answer), last=True)


def _google(talk: Talk, key: str, answer: Answer, parts: list[Body], *, last: bool) -> Body:
    tokens = answer.tokens
    usage = {"promptTokenCount": tokens.prompt, "totalTokenCount": tokens.prompt + tokens.output}
    usage |= {"candidatesTokenCount": tokens.output - tokens.thought, "thoughtsTokenCount": tokens.thought}
    usage |= {"cachedContentTokenCount": tokens.cached} if tokens.cached else {}
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **({"finishReason": "STOP"} if last else {})}
    whole = {"candidates": [candidate], "modelVersion": "m-1", "responseId": f"r{talk.agent}{key}"}
    return {**whole, **({"usageMetadata": usage} if last else {})}


def google_stream(talk: Talk, key: str, answer: Answer) -> list[bytes]:
    pieces = [
        {**part, "text": half} if "text" in part else part
        for part in google_parts(answer)
        for half in (halves(part["text"]) if "text" in part else [""])
    ]
    return [
        event(_google(talk, key, answer, [piece], last=number == len(pieces)))
        for number, piece in enumerate(pieces, start=1)
    ]


# ── Ollama ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def ollama_request(talk: Talk, number: int) -> Body:
    messages: list[Body] = [{"role": "system", "content": talk.system}]
    for part, key in before(talk, number):
        if isinstance(part, Asked):
            image = {"images": [text64(part.image)]} if part.image else {}
            messages.append({"role": "user", "content": part.text, **image})
        elif isinstance(part, Answer):
            messages.append(ollama_message(part))
        else:
            for (_, call), result in zip(calls_before(talk, key), part, strict=True):
                messages.append({"role": "tool", "content": result.text, "tool_name": call.name})
    function = [{"name": name, "description": name, "parameters": SCHEMA} for name in NAMES]
    return {"model": "m", "messages": messages, "tools": [{"type": "function", "function": one} for one in function]}


def ollama_message(answer: Answer) -> Body:
    calls = [{"function": {"name": call.name, "arguments": dict(call.arguments)}} for call in answer.calls]
    thought = {"thinking": answer.thought} if answer.thought else {}
    return {"role": "assistant", "content": answer.text, **thought, **({"tool_calls": calls} if calls else {})}


def ollama_answer(talk: Talk, key: str, answer: Answer) -> Body:
    end = {"done": True, "done_reason": "stop"}
    end |= {"prompt_eval_count": answer.tokens.prompt, "eval_count": answer.tokens.output}
    return {"model": "m", "created_at": "2025-01-01T00:00:00Z", "message": ollama_message(answer), **end}


def ollama_stream(talk: Talk, key: str, answer: Answer) -> list[bytes]:
    whole = ollama_answer(talk, key, answer)
    message = whole["message"]
    said: list[Body] = [{"content": "", "thinking": part} for part in halves(answer.thought)]
    said += [{"content": part} for part in halves(answer.text)]
    said += [{"content": "", "tool_calls": [call]} for call in message.get("tool_calls", ())]
    head = {"model": "m", "created_at": whole["created_at"]}
    lines = [{**head, "message": {"role": "assistant", **one}, "done": False} for one in said]
    lines.append({**whole, "message": {"role": "assistant", "content": ""}})
    return [json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines]


def _google_url(streams: bool) -> str:
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    return f"https://generativelanguage.googleapis.com/v1beta/models/m:{method}"


DIALECTS = {
    "openai-chat": Dialect(
        lambda _: "https://api.openai.com/v1/chat/completions", chat_request, chat_answer, chat_stream
    ),
    "openai-responses": Dialect(
        lambda _: "https://api.openai.com/v1/responses", responses_request, responses_answer, responses_stream
    ),
    "anthropic": Dialect(
        lambda _: "https://api.anthropic.com/v1/messages", anthropic_request, anthropic_answer, anthropic_stream
    ),
    "google": Dialect(_google_url, google_request, google_answer, google_stream),
    "ollama": Dialect(
        lambda _: "http://localhost:11434/api/chat",
        ollama_request,
        ollama_answer,
        ollama_stream,
        "application/x-ndjson",
    ),
}


def request_of(dialect: str, talk: Talk, number: int, *, streams: bool) -> Body:
    """Return the body of a request. In Gemini's dialect, the URL says whether the answer is streamed."""
    body = DIALECTS[dialect].request(talk, number)
    if dialect == "google":
        return body
    options = {"stream_options": {"include_usage": True}} if streams and dialect == "openai-chat" else {}
    return {**body, "stream": streams, **options}
