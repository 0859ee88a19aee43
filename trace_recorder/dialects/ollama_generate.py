"""Ollama's generate dialect, /api/generate (https://docs.ollama.com/api/generate), which completes a prompt.

The prompt becomes the user's message, with `suffix` and `images` in its `extra`. `system` becomes a message before it.
The other inputs stay among the parameters: `context`, which has the tokens of earlier turns, `template`, and `raw`. An
answer has its text outside of a message. This module moves the text into a message, and `ollama_chat.py` reads the
answer.
"""

from __future__ import annotations

from trace_recorder.dialects import ollama_chat
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_text
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.token_counts import WHOLE

_IN_MESSAGE = {"response": "content", "thinking": "thinking"}
"""Maps members of an answer to the members with the same values in a chat answer's message."""


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON. Empty texts and lists are ignored, because the SDK sends them for absent arguments."""
    members = Members(body)
    system, prompt = members.text("system"), members.text("prompt")
    beside = {"suffix": members.text("suffix"), "images": members.array("images")}
    extra: dict[str, Payload] = {name: value for name, value in beside.items() if value}
    messages = []
    if system:
        messages.append(Message("system", system))
    if prompt is not None or extra:
        messages.append(Message("user", prompt, extra=extra))
    return RequestReading(messages, [], members.all(), as_text(as_dict(body).get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON."""
    members = Members(body)
    message = {inside: members.take(outside) for outside, inside in _IN_MESSAGE.items() if outside in as_dict(body)}
    if message:
        body = {**members.all(), "message": message}
    return ollama_chat.read_response(body, made_up_ids)


def join_stream(text: str) -> JoinedStream:
    """Join the lines of a stream into the body that the same answer has without streaming."""
    return ollama_chat.join_stream(text)


DIALECT = Dialect(
    name="ollama-generate",
    addresses={r"/api/generate/?$": "ollama"},
    sdks=("ollama",),
    headers={},
    operation="text_completion",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=ollama_chat.not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=lambda body, text: {**body, "system": text},
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
