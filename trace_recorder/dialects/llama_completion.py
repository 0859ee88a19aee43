"""llama.cpp's own dialect (/completion): a text or ids in, a text and ids out.

A prompt that is a text is the user's message. A prompt of ids, or of ids and texts, stays a parameter. An answer has
`content`, and `tokens` and `completion_probabilities` if they were requested (`return_tokens`, `n_probs`). An event of
a stream has what is new, and the last one has the counts. Source: llama.cpp, `tools/server/README.md`.
`figures/sampled_tokens.py` has the ids of a call.
"""

from __future__ import annotations

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.deltas import finish_texts, merge
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_dict, as_text, json_value
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Payload, RequestReading, Usage
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    prompt = members.text("prompt")
    messages = [] if prompt is None else [Message("user", prompt)]
    return RequestReading(messages, [], members.all(), as_text(as_dict(body).get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 - it has no tool calls
    """Read a response's JSON."""
    members = Members(body)
    content, finish_reason = members.text("content"), members.nonempty_text("stop_type")
    return LLMResponse(
        content=content,
        finish_reason=finish_reason,
        usage=Usage(members.integer("tokens_evaluated"), members.integer("tokens_predicted")),
        model=members.text("model"),
        choices=() if content is None else (Choice(0, content, finish_reason=finish_reason),),
        extra=members.rest(),
    )


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere."""
    body: dict[str, Payload] = {}
    number = 0
    for number, (_, data) in enumerate(events(text), start=1):  # noqa: B007 read after the loop
        merge(body, as_dict(json_value(data)), "content".__eq__)
    if number == 0:
        return unstreamed(text)
    body = as_dict(finish_texts(body))
    return JoinedStream(body, ended=body.get("stop") is True, events=number, error=body.get("error"))


DIALECT = Dialect(
    name="llama-completion",
    addresses={r"/completion/?$": "llama.cpp"},
    sdks=(),
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
    usage_on_request=False,
    background=None,
    websockets=None,
)
