"""A provider on 127.0.0.1 for OpenAI's chat completions, which answers from a script, reply after reply."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.provider import Answer, Request, plain, serving, stream

Json = Any
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Reply:
    """A model's answer to a request: text, reasoning, calls as (name, arguments), or the status of an error."""

    text: str | None = None
    calls: Sequence[tuple[str, Json]] = ()
    reasoning: str | None = None
    status: int = 200
    seconds: float = 0.0
    extra: dict[str, Json] = field(default_factory=dict)


@contextmanager
def provider(script: Sequence[Reply]) -> Iterator[str]:
    """Serve the replies of a script in order, and repeat the last one. Yield the base URL."""
    with serving(*(partial(_answer, number, reply) for number, reply in enumerate(script))) as server:
        yield f"{server.url}/v1"


def _answer(number: int, reply: Reply, request: Request) -> Answer:
    body = json.loads(request.body)
    time.sleep(reply.seconds)
    if reply.status != 200:
        error = {"error": {"message": reply.text, "type": "server_error", "code": None}}
        return plain(error, reply.status, **{"x-request-id": "req_1", "retry-after-ms": "20"})
    if not body.get("stream"):
        return plain(_completion(number, reply, body))
    return stream(*(b"data: " + json.dumps(event).encode() + b"\n\n" for event in _events(number, reply, body)), DONE)


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
