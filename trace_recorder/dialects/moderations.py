"""Moderations (/moderations), of OpenAI and Mistral: whether texts and images break the rules of a provider.

The input is one message of the user, with a part for each text or image. The verdicts are in `extra["results"]`.
"""

from __future__ import annotations

from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_elements, as_part, as_text, content_of
from trace_recorder.dialects.openai_chat import not_found, read_usage
from trace_recorder.dialects.stream_framing import unstreamed
from trace_recorder.values.messages import LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    content = content_of([as_part(part) for part in as_elements(members.take("input"))])
    messages = []
    if content is not None:
        messages.append(Message("user", content))
    parameters = members.all()
    return RequestReading(messages, parameters=parameters, model=as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a response's JSON."""
    members = Members(body)
    usage = read_usage(members.object("usage"))
    return LLMResponse(usage=usage, model=members.text("model"), id=members.text("id"), extra=members.rest())


DIALECT = Dialect(
    name="moderations",
    addresses={r"/moderations/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="moderation",
    read_request=read_request,
    read_response=read_response,
    join_stream=unstreamed,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=False,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
