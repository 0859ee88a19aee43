"""The OpenAI completions dialect (/completions), which completes a prompt. It is older than chat messages.

A prompt that is a text, or a list of texts, is read as the user's messages. A prompt of token ids stays a parameter. A
response is like one of the chat dialect, but has a `text` in place of the message. So `openai_chat.py` reads it.
"""

from __future__ import annotations

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.chat_chunks import join_chat_stream
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_elements, as_text
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    texts = as_elements(as_dict(body).get("prompt"))
    messages: list[Message] = []
    if texts and all(isinstance(text, str) for text in texts):
        members.take("prompt")
        messages = [Message("user", text) for text in texts]
    parameters = members.all()
    return RequestReading(messages, [], parameters, as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:
    """Read a response's JSON."""
    return openai_chat.read_response(body, made_up_ids)


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere."""
    return join_chat_stream(text, _as_chunk)


def _as_chunk(event: dict[str, Payload]) -> Payload:
    """Convert an event of Writer, which has only a `value`, to the form of a chunk."""
    if event.keys() != {"value"}:
        return event
    return {"choices": [{"index": 0, "text": event["value"]}]}


DIALECT = Dialect(
    name="openai-completions",
    addresses={r"/completions/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="text_completion",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=openai_chat.not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=True,
    background=None,
    websockets=None,
)
