"""Speech that a model makes of a text (/audio/speech), of OpenAI and of compatible servers.

The text is the user's message, and the instructions of how to speak are a system message. The answer is a sound, which
is no JSON: `extra["audio"]` has its `content_type` and its bytes as `base64`. A stream of events has pieces of the
sound, each in base64. Joined, they are the same answer.
"""

from __future__ import annotations

import base64

from trace_recorder.dialects.chat_chunks import error_of, joined_events
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.json_access import Members, as_text, json_value
from trace_recorder.dialects.openai_chat import not_found, read_usage
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.signal_handlers import suppress
from trace_recorder.values.messages import JoinedStream, LLMResponse, Message, Payload, RequestReading, without_none
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a request's JSON."""
    members = Members(body)
    instructions, text = members.nonempty_text("instructions"), members.text("input")
    messages = []
    if instructions is not None:
        messages.append(Message("system", instructions))
    count = len(messages)
    if text is not None:
        messages.append(Message("user", text))
    parameters = members.all()
    return RequestReading(messages, [], parameters, as_text(parameters.get("model")), count)


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a sound, or the JSON of a stream."""
    members = Members(body)
    data = members.text("base64") or members.text("audio")
    audio: dict[str, Payload] = {}
    if data:
        audio["audio"] = without_none(content_type=members.text("content_type"), base64=data)
    return LLMResponse(usage=read_usage(members.object("usage")), extra=audio | members.rest())


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere."""
    number, ended, error = 0, False, None
    pieces: list[bytes] = []
    beside: dict[str, Payload] = {}
    for name, data in events(text):
        number += 1
        members = Members(json_value(data))
        kind = members.text("type") or name or ""
        error = error_of(kind, members, data) or error
        ended = ended or kind.endswith("audio.done") or data.strip() == "[DONE]"
        with suppress(ValueError):  # a piece that is not base64 is left out
            pieces.append(base64.b64decode(members.text("audio") or members.text("delta") or ""))
        if error is None:
            beside |= members.rest()
    if not number:
        return unstreamed(text)
    body = {**beside, "audio": base64.b64encode(b"".join(pieces)).decode()}
    return joined_events(body, ended=ended, events=number, error=error)


DIALECT = Dialect(
    name="speech",
    addresses={r"/audio/speech/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="speech",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
    not_found=not_found,
    history=None,
    numbers_calls=True,
    instructions_apart=True,
    with_system=None,
    counting=WHOLE,
    usage_on_request=False,
    background=None,
    websockets=None,
)
