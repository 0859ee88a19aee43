"""Requests and answers in five dialects: a conversation as a request, and a model's answer as bytes, as a whole and as
a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.chat_calls import CHAT
from trace_recorder.values.messages import Payload


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call of a model."""

    identity: str
    name: str
    arguments: Payload


@dataclass(frozen=True, slots=True)
class Turn:
    """An entry of a conversation: a user's text, a model's answer, or a tool result, whose call is in `asks`."""

    role: str
    text: str
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """A model's answer: the response's id, a text, and the tool calls."""

    identity: str
    text: str
    asks: tuple[Ask, ...] = ()

    def turn(self) -> Turn:
        """Return the answer as an entry of the conversation."""
        return Turn("assistant", self.text, self.asks)


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect: its URL, the URL for streams, the body of a request, a whole answer, and the pieces of a streamed
    answer.
    """

    url: str
    streaming: str
    request: Callable[[Sequence[Turn]], Payload]
    answer: Callable[[Said], Payload]
    pieces: Callable[[Said], Iterable[str]]


def _event(data: Payload) -> str:
    named = f"event: {data['type']}\n" if "type" in data else ""
    return f"{named}data: {json.dumps(data)}\n\n"


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


# ── OpenAI: chat, Responses ──────────────────────────────────────────────────────────────────────────────────────────


def _chat_call(one: Ask) -> Payload:
    function = {"name": one.name, "arguments": json.dumps(one.arguments)}
    return {"id": one.identity, "type": "function", "function": function}


def _chat_message(turn: Turn) -> Payload:
    if turn.role == "tool":
        return {"role": "tool", "tool_call_id": turn.asks[0].identity, "content": turn.text}
    calls = {"tool_calls": [*map(_chat_call, turn.asks)]} if turn.asks else {}
    return {"role": turn.role, "content": turn.text, **calls}


def _chat_request(talk: Sequence[Turn]) -> Payload:
    return {"model": "m", "messages": [*map(_chat_message, talk)]}


def _chat_answer(said: Said) -> Payload:
    choice = {"index": 0, "message": _chat_message(said.turn()), "finish_reason": "stop"}
    return {"id": said.identity, "object": "chat.completion", "model": "m-1", "choices": [choice]}


def _chat_pieces(answer: Said) -> Iterable[str]:
    calls = [[{"index": at, **_chat_call(one)}] for at, one in enumerate(answer.asks)]
    deltas = [*({"content": half} for half in _halves(answer.text)), *({"tool_calls": call} for call in calls)]
    for delta in deltas:
        yield _event({"id": answer.identity, "choices": [{"index": 0, "delta": delta}]})
    yield _event({"id": answer.identity, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield "data: [DONE]\n\n"


def _responses_input(talk: Sequence[Turn]) -> Iterable[Payload]:
    for turn in talk:
        if turn.role == "tool":
            yield {"type": "function_call_output", "call_id": turn.asks[0].identity, "output": turn.text}
            continue
        yield {"role": turn.role, "content": turn.text}
        yield from map(_responses_call, turn.asks)


def _responses_call(ask: Ask) -> Payload:
    return {
        "type": "function_call",
        "id": f"fc_{ask.identity}",
        "call_id": ask.identity,
        "name": ask.name,
        "arguments": json.dumps(ask.arguments),
    }


def _responses_request(talk: Sequence[Turn]) -> Payload:
    return {"model": "m", "input": [*_responses_input(talk)]}


def _responses_answer(said: Said) -> Payload:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    text = message | {"content": [{"type": "output_text", "text": said.text, "annotations": []}]}
    output = [text, *map(_responses_call, said.asks)]
    return {"id": said.identity, "object": "response", "status": "completed", "model": "m-1", "output": output}


def _responses_pieces(answer: Said) -> Iterable[str]:
    whole = _responses_answer(answer)
    yield _event({"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}})
    for at, item in enumerate(whole["output"]):
        yield _event({"type": "response.output_item.added", "output_index": at, "item": item})
        yield _event({"type": "response.output_item.done", "output_index": at, "item": item})
    yield _event({"type": "response.completed", "response": whole})


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _anthropic_use(one: Ask) -> Payload:
    return {"type": "tool_use", "id": one.identity, "name": one.name, "input": one.arguments}


def _anthropic_message(turn: Turn) -> Payload:
    if turn.role == "tool":
        result = {"type": "tool_result", "tool_use_id": turn.asks[0].identity, "content": turn.text}
        return {"role": "user", "content": [result]}
    content = [{"type": "text", "text": turn.text}, *map(_anthropic_use, turn.asks)]
    return {"role": turn.role, "content": content if turn.asks else turn.text}


def _anthropic_request(talk: Sequence[Turn]) -> Payload:
    return {"model": "m", "max_tokens": 9, "messages": [*map(_anthropic_message, talk)]}


def _anthropic_answer(said: Said) -> Payload:
    content = [{"type": "text", "text": said.text}, *map(_anthropic_use, said.asks)]
    head = {"id": said.identity, "type": "message", "role": "assistant", "model": "m-1"}
    return {**head, "content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}


def _anthropic_pieces(answer: Said) -> Iterable[str]:
    whole = _anthropic_answer(answer)
    yield _event({"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}})
    for place, block in enumerate(whole["content"]):
        if block["type"] == "text":
            begun: Payload = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event({"type": "content_block_start", "index": place, "content_block": begun})
        yield _event({"type": "content_block_delta", "index": place, "delta": delta})
        yield _event({"type": "content_block_stop", "index": place})
    yield _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})
    yield _event({"type": "message_stop"})


# ── Google, Ollama: no call has an id ────────────────────────────────────────────────────────────────────────────────


def _google_call(one: Ask) -> Payload:
    return {"functionCall": {"name": one.name, "args": one.arguments}}


def _google_content(turn: Turn) -> Payload:
    if turn.role == "tool":
        answer = {"name": turn.asks[0].name, "response": {"result": turn.text}}
        return {"role": "user", "parts": [{"functionResponse": answer}]}
    role = "model" if turn.role == "assistant" else "user"
    return {"role": role, "parts": [{"text": turn.text}, *map(_google_call, turn.asks)]}


def _google_request(talk: Sequence[Turn]) -> Payload:
    return {"contents": [*map(_google_content, talk)]}


def _google_answer(said: Said) -> Payload:
    candidate = {"content": _google_content(said.turn()), "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "responseId": said.identity, "modelVersion": "m-1"}


def _google_pieces(answer: Said) -> Iterable[str]:
    *first, last = ({"text": answer.text}, *map(_google_call, answer.asks))
    for part in first:
        content = {"role": "model", "parts": [part]}
        yield _event({"candidates": [{"content": content, "index": 0}], "responseId": answer.identity})
    ending = {"content": {"role": "model", "parts": [last]}, "finishReason": "STOP", "index": 0}
    yield _event({"candidates": [ending], "responseId": answer.identity})


def _ollama_call(one: Ask) -> Payload:
    return {"function": {"name": one.name, "arguments": one.arguments}}


def _ollama_message(turn: Turn) -> Payload:
    if turn.role == "tool":
        return {"role": "tool", "tool_name": turn.asks[0].name, "content": turn.text}
    calls = {"tool_calls": [*map(_ollama_call, turn.asks)]} if turn.asks else {}
    return {"role": turn.role, "content": turn.text, **calls}


def _ollama_request(talk: Sequence[Turn]) -> Payload:
    return {"model": "m", "messages": [*map(_ollama_message, talk)]}


def _ollama_answer(said: Said) -> Payload:
    return {"model": "m-1", "message": _ollama_message(said.turn()), "done": True, "done_reason": "stop"}


def _ollama_pieces(said: Said) -> Iterable[str]:
    message = _ollama_message(said.turn())
    yield json.dumps({"model": "m-1", "message": message, "done": False}) + "\n"
    yield json.dumps({"model": "m-1", "message": {"role": "assistant", "content": ""}, "done": True}) + "\n"


_GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/m:"
_OLLAMA = "http://localhost:11434/api/chat"
_ANTHROPIC = "https://api.anthropic.com/v1/messages"
_RESPONSES = "https://api.openai.com/v1/responses"

DIALECTS = {
    "chat": Dialect(CHAT, CHAT, _chat_request, _chat_answer, _chat_pieces),
    "responses": Dialect(_RESPONSES, _RESPONSES, _responses_request, _responses_answer, _responses_pieces),
    "anthropic": Dialect(_ANTHROPIC, _ANTHROPIC, _anthropic_request, _anthropic_answer, _anthropic_pieces),
    "google": Dialect(
        f"{_GOOGLE}generateContent",
        f"{_GOOGLE}streamGenerateContent?alt=sse",
        _google_request,
        _google_answer,
        _google_pieces,
    ),
    "ollama": Dialect(_OLLAMA, _OLLAMA, _ollama_request, _ollama_answer, _ollama_pieces),
}
