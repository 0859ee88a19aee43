"""Servers that state tokens as vLLM 0.33 and SGLang 0.5.23 do, in the order and with the nulls of their sources.

An answer depends on the request alone, so that the bytes that two programs get can be compared. A choice samples four
tokens. With tools, the second token is a part of a call that the parser keeps back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.provider import Answer, Request, plain, stream, whole

PROMPT = [1, 15, 9906, 128009]
LOGPROBS = [-0.25, -0.0, -9999.0, -1.5e-07]
_TEXTS = ["Gr", "ü", "ße", ""]
_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
_DONE = b"data: [DONE]\n\n"


def sampled(choice: int) -> list[int]:
    """Return the ids of a choice."""
    return [100 * (choice + 1) + number for number in range(4)]


def vllm(request: Request) -> Answer:
    """Answer as vLLM does."""
    asked = json.loads(request.body)
    if request.path.endswith("/messages"):
        return plain(
            {"id": "msg_1", "type": "message", "content": [{"type": "text", "text": "hi"}], "role": "assistant"}
        )
    make = _VLLMChat if request.path.endswith("/chat/completions") else _VLLMCompletion
    return _answer(make(asked), asked)


def sglang(request: Request) -> Answer:
    """Answer as SGLang does."""
    asked = json.loads(request.body)
    is_chat = request.path.endswith("/chat/completions")
    if is_chat and asked.get("stream") and asked.get("return_token_ids"):
        return plain({"object": "error", "message": "return_token_ids is not supported with streaming"}, 400)
    make = _SGLangChat if is_chat else _SGLangCompletion
    return _answer(make(asked), asked)


def refusing(name: str, status: int = 400) -> Any:
    """Return a server of vLLM that refuses a member."""

    def answer(request: Request) -> Answer:
        if name in json.loads(request.body):
            return plain({"detail": [{"type": "extra_forbidden", "loc": ["body", name]}]}, status)
        return vllm(request)

    return answer


def _answer(form: _Form, asked: dict[str, Any]) -> Answer:
    if asked.get("stream"):
        return stream(*form.stream(), _DONE)
    return whole(_compact(form.whole()))


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _event(value: Any) -> bytes:
    return b"data: " + _compact(value) + b"\n\n"


class _Form:
    """What the forms of answers share."""

    kind = "chat.completion"

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.head = {"id": "cmpl-1", "object": self.kind, "created": 1, "model": asked.get("model")}
        self.has_ids = bool(asked.get("return_token_ids"))
        self.choices = range(asked.get("n") or 1)
        self.has_tools = bool(asked.get("tools"))
        self.has_usage = bool((asked.get("stream_options") or {}).get("include_usage"))

    def usage(self) -> dict[str, Any]:
        count = 4 * len(self.choices)
        return {"prompt_tokens": 4, "total_tokens": 4 + count, "completion_tokens": count}

    def chat_logprobs(self, *places: int) -> dict[str, Any] | None:
        if not self.asked.get("logprobs"):
            return None
        return {
            "content": [
                {"token": _TEXTS[place], "logprob": LOGPROBS[place], "bytes": None, "top_logprobs": []}
                for place in places
            ]
        }

    def completion_logprobs(self, *places: int) -> dict[str, Any] | None:
        if self.asked.get("logprobs") is None:
            return None
        return {
            "text_offset": [0 for _ in places],
            "token_logprobs": [LOGPROBS[place] for place in places],
            "tokens": [_TEXTS[place] for place in places],
            "top_logprobs": [None for _ in places],
        }

    def message(self) -> dict[str, Any]:
        if self.has_tools:
            return {"role": "assistant", "content": None, "reasoning": None, "tool_calls": [_CALL]}
        return {"role": "assistant", "content": "".join(_TEXTS), "reasoning": None}

    def finish(self) -> str:
        return "tool_calls" if self.has_tools else "stop"

    def whole(self) -> Any:
        raise NotImplementedError

    def stream(self) -> Iterator[bytes]:
        raise NotImplementedError


class _VLLMChat(_Form):
    def whole(self) -> Any:
        choices = [
            {
                "index": index,
                "message": self.message(),
                "logprobs": self.chat_logprobs(0, 1, 2, 3),
                "finish_reason": self.finish(),
                "stop_reason": None,
                "token_ids": sampled(index) if self.has_ids else None,
                "routed_experts": None,
                "weight_versions": None,
            }
            for index in self.choices
        ]
        ids = PROMPT if self.has_ids else None
        return {
            **self.head,
            "choices": choices,
            "service_tier": None,
            "usage": self.usage(),
            "prompt_logprobs": None,
            "prompt_token_ids": ids,
            "prompt_text": None,
        }

    def stream(self) -> Iterator[bytes]:
        head = {**self.head, "object": "chat.completion.chunk"}
        for index in self.choices:
            first = {
                "index": index,
                "delta": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": None,
            }
            yield _event(
                {
                    **head,
                    "choices": [first],
                    "prompt_token_ids": PROMPT if self.has_ids else None,
                    "prompt_text": None,
                }
            )
        for place in range(4):
            for index in self.choices:
                choice = self._choice(index, place)
                if choice is not None:
                    yield _event({**head, "choices": [choice], "kv_transfer_params": None})
        if self.has_usage:
            yield _event({**head, "choices": [], "usage": self.usage()})

    def _choice(self, index: int, place: int) -> dict[str, Any] | None:
        delta: dict[str, Any] | None = {"content": _TEXTS[place]}
        if self.has_tools:
            delta = {"tool_calls": [{**_CALL, "index": 0}]} if place == 2 else None
        logprobs = self.chat_logprobs(place)
        is_last = place == 3
        if delta is None:
            if not is_last and logprobs is None and not self.has_ids:
                return None
            delta = {}
        ids = {"token_ids": sampled(index)[place : place + 1] if self.has_ids else None}
        ended = {"stop_reason": None} if is_last else {}
        return {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": self.finish() if is_last else None,
            **ended,
            **ids,
        }


class _VLLMCompletion(_Form):
    kind = "text_completion"

    def whole(self) -> Any:
        choices = [
            {
                "index": index,
                "text": "".join(_TEXTS),
                "logprobs": self.completion_logprobs(0, 1, 2, 3),
                "finish_reason": "stop",
                "stop_reason": None,
                "token_ids": sampled(index) if self.has_ids else None,
                "prompt_logprobs": None,
                "prompt_token_ids": PROMPT if self.has_ids else None,
            }
            for index in self.choices
        ]
        return {**self.head, "choices": choices, "usage": self.usage(), "kv_transfer_params": None}

    def stream(self) -> Iterator[bytes]:
        for place in range(4):
            for index in self.choices:
                choice = {
                    "index": index,
                    "text": _TEXTS[place],
                    "logprobs": self.completion_logprobs(place),
                    "finish_reason": "stop" if place == 3 else None,
                    "stop_reason": None,
                    "prompt_token_ids": PROMPT if self.has_ids and place == 0 else None,
                    "token_ids": sampled(index)[place : place + 1] if self.has_ids else None,
                }
                yield _event({**self.head, "choices": [choice]})
        if self.has_usage:
            yield _event({**self.head, "choices": [], "usage": self.usage()})


class _SGLangChat(_Form):
    def extension(self) -> dict[str, Any]:
        ids: dict[str, Any] = {}
        if self.asked.get("return_routed_experts"):
            ids["routed_experts"] = "AAEC"
        if self.asked.get("return_input_ids_in_sglext"):
            ids["input_ids"] = PROMPT
        if self.asked.get("return_output_ids_in_sglext"):
            ids["output_ids"] = [sampled(index) for index in self.choices]
        return {"sglext": ids} if ids else {}

    def whole(self) -> Any:
        choices = [
            {
                "index": index,
                "message": {**self.message(), "reasoning_content": None},
                "logprobs": self.chat_logprobs(0, 1, 2, 3),
                "finish_reason": self.finish(),
                "matched_stop": 2,
                **({"prompt_token_ids": PROMPT, "response_token_ids": sampled(index)} if self.has_ids else {}),
            }
            for index in self.choices
        ]
        metadata = {"metadata": {"weight_version": "7"}}
        return {**self.head, "choices": choices, "usage": self.usage(), **metadata, **self.extension()}

    def stream(self) -> Iterator[bytes]:
        head = {**self.head, "object": "chat.completion.chunk"}
        ends = {"logprobs": None, "finish_reason": None, "matched_stop": None}
        for index in self.choices:
            delta = {"reasoning_content": None, "role": "assistant", "content": ""}
            yield _event({**head, "choices": [{"index": index, "delta": delta, **ends}]})
        for place in range(3):
            for index in self.choices:
                logprobs = self.chat_logprobs(place)
                choice = {"index": index, "delta": {"reasoning_content": None}, **ends, "logprobs": logprobs}
                if not self.has_tools:
                    choice["delta"] = {"reasoning_content": None, "content": _TEXTS[place]}
                elif place == 1:
                    call = {"role": None, "content": None, "reasoning_content": None, "tool_calls": [_CALL]}
                    yield _event({**head, "choices": [{"index": index, "delta": call, **ends}], "usage": None})
                if logprobs is not None or not self.has_tools:
                    yield _event({**head, "choices": [choice]})
        for index in self.choices:
            ended = {**ends, "finish_reason": self.finish(), "matched_stop": 2}
            yield _event({**head, "choices": [{"index": index, "delta": {"reasoning_content": None}, **ended}]})
        if extension := self.extension():
            yield _event({**head, "choices": [], "usage": None, **extension})
        if self.has_usage:
            yield _event({**head, "choices": [], "usage": self.usage()})


class _SGLangCompletion(_Form):
    kind = "text_completion"

    def _ids(self, index: int, *places: int) -> dict[str, Any]:
        if not self.has_ids:
            return {}
        ids: dict[str, Any] = {"token_ids": [sampled(index)[place] for place in places]}
        if 0 in places:
            ids["prompt_token_ids"] = PROMPT
        return ids

    def whole(self) -> Any:
        choices = [
            {
                "index": index,
                "text": "".join(_TEXTS),
                "logprobs": self.completion_logprobs(0, 1, 2, 3),
                "finish_reason": "stop",
                "matched_stop": None,
                **self._ids(index, 0, 1, 2, 3),
            }
            for index in self.choices
        ]
        return {**self.head, "choices": choices, "usage": self.usage(), "metadata": None}

    def stream(self) -> Iterator[bytes]:
        for place in range(4):
            for index in self.choices:
                choice = {
                    "index": index,
                    "text": _TEXTS[place],
                    "logprobs": self.completion_logprobs(place),
                    "finish_reason": "stop" if place == 3 else None,
                    "matched_stop": None,
                    **self._ids(index, place),
                }
                yield _event({**self.head, "choices": [choice], "usage": None})
        if self.has_usage:
            yield _event({**self.head, "choices": [], "usage": self.usage()})
