"""The local server's answers in addition to those of `tests/provider.py`: a small body for each dialect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.provider import CHAT, GENERATED, MESSAGE, OLLAMA, Answer, stream

Payload = Any

JSON_CHAT = {**CHAT, "choices": [{**CHAT["choices"][0], "message": {"role": "assistant", "content": '{"word":"hi"}'}}]}
COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "created": 1,
    "model": "m-2025",
    "choices": [{"index": 0, "text": "hi", "finish_reason": "stop", "logprobs": None}],
}
EMBEDDING = {
    "object": "list",
    "model": "m-2025",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}
COUNTED = {"input_tokens": 3}


def response_of(text: str, status: str = "completed") -> Payload:
    """Return a response of OpenAI's Responses API."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m-2025",
        "output": [message] if text else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }


def events(*pieces: Payload) -> Answer:
    """Return a server-sent stream whose events have names, as Anthropic's and the Responses API's do."""
    return stream(*(f"event: {piece['type']}\ndata: {json.dumps(piece)}\n\n".encode() for piece in pieces))


def _response_events(text: str) -> Sequence[Payload]:
    whole = response_of(text)
    [message] = whole["output"]
    [part] = message["content"]
    here = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
    pieces = (
        {"type": "response.created", "response": response_of("", "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**message, "content": []}},
        {"type": "response.content_part.added", **here, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **here, "delta": text, "logprobs": []},
        {"type": "response.output_text.done", **here, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **here, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": whole},
    )
    return [{**piece, "sequence_number": number} for number, piece in enumerate(pieces)]


RESPONSE_STREAM = events(*_response_events("hi"))
MESSAGE_STREAM = events(
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 1},
    },
    {"type": "message_stop"},
)
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Ulm"}}
MESSAGE_TOOL = {**MESSAGE, "id": "msg_0", "content": [TOOL_USE], "stop_reason": "tool_use"}

_SAID = {"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP", "index": 0}
GENERATED_STREAM = stream(f"data: {json.dumps({**GENERATED, 'candidates': [_SAID]})}\r\n\r\n".encode())
FUNCTION_CALL = {"functionCall": {"name": "weather", "args": {"city": "Ulm"}}}
GENERATED_CALL = {
    **GENERATED,
    "candidates": [{"content": {"role": "model", "parts": [FUNCTION_CALL]}, "finishReason": "STOP", "index": 0}],
}
GENERATED_JSON = {
    **GENERATED,
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": '{"word":"hi"}'}]}, "finishReason": "STOP", "index": 0}
    ],
}
INTERACTION = {
    "id": "int_1",
    "object": "interaction",
    "model": "m",
    "status": "completed",
    "created": "2025-01-01T00:00:00Z",
    "updated": "2025-01-01T00:00:00Z",
    "outputs": [{"type": "text", "text": "hi"}],
    "steps": [],
}
_COMPLETED = {"event_type": "interaction.completed", "event_id": "1", "interaction": INTERACTION}
INTERACTION_STREAM = stream(f"event: interaction.completed\ndata: {json.dumps(_COMPLETED)}\n\n".encode())

OLLAMA_GENERATED = {**{name: value for name, value in OLLAMA.items() if name != "message"}, "response": "hi"}
OLLAMA_EMBEDDED = {"model": "llama", "embeddings": [[0.5, 0.25]]}
OLLAMA_EMBEDDING = {"embedding": [0.5, 0.25]}
OLLAMA_SHOWN = {
    "modified_at": "2025-01-01T00:00:00Z",
    "modelfile": "FROM n",
    "template": "t",
    "license": "l",
    "parameters": "p",
    "details": {"parent_model": "", "format": "gguf", "family": "f", "families": ["f"]},
    "model_info": {},
    "capabilities": ["completion"],
}


def lines(*parts: Payload) -> Answer:
    """Return a stream of JSON lines, like Ollama's."""
    chunks = [json.dumps(part).encode() + b"\n" for part in parts]
    return Answer(chunks, 200, {"content-type": "application/x-ndjson"})


OLLAMA_STREAM = lines({**OLLAMA, "done": False, "message": {"role": "assistant", "content": "hello"}}, OLLAMA)
OLLAMA_GENERATE_STREAM = lines({**OLLAMA_GENERATED, "done": False, "response": "h"}, OLLAMA_GENERATED)
