"""Texts of speech: transcriptions and translations (/audio/transcriptions, /audio/translations), of OpenAI, Groq,
Mistral and compatible servers.

A request is a form with the sound as a file (`form_bodies.py`), or JSON with an address. The sound and the `prompt` are
the parts of the user's message. The answer is JSON with a `text`, or a plain text such as subtitles. A stream has the
pieces of the text, and last the whole text.
"""

from __future__ import annotations

import json

from trace_recorder.dialects.chat_chunks import error_of, joined_events
from trace_recorder.dialects.dialect import Dialect
from trace_recorder.dialects.form_bodies import media_part
from trace_recorder.dialects.json_access import Members, as_part, as_text, content_of, json_value, text_part
from trace_recorder.dialects.openai_chat import not_found, read_usage
from trace_recorder.dialects.stream_framing import events, unstreamed
from trace_recorder.values.messages import Choice, JoinedStream, LLMResponse, Message, Payload, RequestReading
from trace_recorder.values.token_counts import WHOLE


def read_request(body: Payload) -> RequestReading:
    """Read a form as JSON, or a request's JSON."""
    members = Members(body)
    sounds = [members.take(name) for name in ("file", "audio") if members.get(name) is not None]
    parts = [as_part(media_part(sound, "audio")) for sound in sounds]
    prompt = members.nonempty_text("prompt")
    if prompt is not None:
        parts.append(text_part(prompt))
    content = content_of(parts)
    messages = []
    if content is not None:
        messages.append(Message("user", content))
    parameters = members.all()
    return RequestReading(messages, parameters=parameters, model=as_text(parameters.get("model")))


def read_response(body: Payload, made_up_ids: int = 0) -> LLMResponse:  # noqa: ARG001 no calls here
    """Read a response's JSON, or its text. A text such as "12" is JSON too."""
    members = Members(body)
    if isinstance(body, dict):
        text = members.text("text")
    elif isinstance(body, str):
        text = body
    else:
        text = json.dumps(body, ensure_ascii=False)
    return LLMResponse(
        text,
        usage=read_usage(members.object("usage")),
        model=members.text("model"),
        choices=() if text is None else (Choice(0, text),),
        extra=members.rest(),
    )


def join_stream(text: str) -> JoinedStream:
    """Join the text of a stream, which may be cut off anywhere."""
    number, ended, error = 0, False, None
    pieces: list[str] = []
    segments: list[Payload] = []
    last: dict[str, Payload] = {}
    for name, data in events(text):
        number += 1
        event = Members(json_value(data))
        kind = event.text("type") or name or ""
        error = error_of(kind, event, data) or error
        if kind.endswith(".delta"):
            pieces.append(event.text("delta") or event.text("text") or "")
        elif kind.endswith(".segment"):
            segments.append(dict(event))
        elif kind.endswith(".done"):
            last, ended = event.rest(), True
    if not number:
        return unstreamed(text)
    body: dict[str, Payload] = {"text": "".join(pieces)}
    if segments:
        body["segments"] = segments
    body |= last
    return joined_events(body, ended=ended, events=number, error=error)


DIALECT = Dialect(
    name="transcriptions",
    addresses={r"/audio/(?:transcriptions|translations)/?$": "openai"},
    sdks=("openai",),
    headers={},
    operation="transcription",
    read_request=read_request,
    read_response=read_response,
    join_stream=join_stream,
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
