"""Messages in the form of the GenAI semantic conventions: `{"role", "parts", "finish_reason"}`.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (the JSON schemas of input and output messages), and the
older names of pydantic-ai. A part of a kind that has no field in a message stays a part of its content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.json_access import (
    arguments_of,
    as_dict,
    as_list,
    as_text,
    is_plain_text,
    role_of,
    text_part,
)
from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans.span import parsed
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Block, Message, Payload, ToolCall, without_none

_TEXT = {"text"}
_REASONING = {"reasoning", "thinking"}
_CALL = {"tool_call"}
_RESULT = {"tool_call_response"}
_READ = {"type", "id", "name", "arguments", "result", "response", "content"}


def kind_of(part: Payload) -> str:
    """Return the type that a part or a block states; "" if it states none."""
    return as_text(as_dict(part).get("type")) or ""


def has_parts(element: Payload) -> bool:
    """Whether this is a message in the form of the conventions."""
    parts = element.get("parts") if isinstance(element, dict) else None
    return isinstance(parts, list) and all(isinstance(part, dict) and _says_what(part) for part in parts)


def _says_what(part: Mapping[str, Payload]) -> bool:
    return isinstance(part.get("type"), str)


def read_message(element: Payload) -> list[Message]:
    """Read one message: a tool message for each result in it, and one of the rest, in the order of the parts."""
    members = as_dict(element)
    role = role_of(members.get("role"))
    messages: list[Message] = []
    rest: list[Members] = []
    for part in map(as_dict, as_list(members.get("parts"))):
        if kind_of(part) in _RESULT:
            messages += [_of_parts(role, rest)] if rest else []
            rest = []
            messages.append(_result(part))
        else:
            rest.append(part)
    return [*messages, *([_of_parts(role, rest)] if rest or not messages else [])]


def blocks_of(parts: Iterable[Members], calls: Iterable[ToolCall]) -> tuple[Block, ...]:
    """Return the order of an answer's blocks, if it is not the usual one."""
    return _gather(parts)[0].interleaved(calls)


def joined(outputs: Iterable[Members]) -> Members:
    """Return outputs that are the items of one answer, or its chunks, as one. A chunk has no reason to finish."""
    whole: Members = {}
    parts: list[Members] = []
    is_chunk = False
    for output in outputs:
        whole = output
        for part in map(as_dict, as_list(output.get("parts"))):
            if is_chunk and _continues(parts[-1], part):
                parts[-1] = parts[-1] | {"content": f"{parts[-1]['content']}{part['content']}"}
            else:
                parts.append(part)
            is_chunk = False
        is_chunk = bool(parts) and not output.get("finish_reason")
    return {**whole, "parts": parts}


def _continues(before: Members, part: Members) -> bool:
    """Whether a part is more of the text, or of the reasoning, of the part before."""
    texts = (before.get("content"), part.get("content"))
    return before.keys() == {"type", "content"} and kind_of(before) == kind_of(part) and all(map(as_text, texts))


def _of_parts(role: str, parts: list[Members]) -> Message:
    gathered, calls, content = _gather(parts)
    signed = [part for part in parts if kind_of(part) in _REASONING and part.keys() - {"type", "content"}]
    return Message(
        role,
        gathered.content(content),
        tuple(calls),
        reasoning=gathered.all_reasoning(),
        extra=without_none(thinking=signed or None),
    )


def _gather(parts: Iterable[Members]) -> tuple[Blocks, list[ToolCall], list[Payload]]:
    gathered, calls = Blocks(), list[ToolCall]()
    content: list[Payload] = []
    for part in parts:
        kind = kind_of(part)
        if kind in _REASONING:
            gathered.add_reasoning(as_text(part.get("content")))
        elif kind in _CALL:
            gathered.add_call()
            calls.append(_call(part))
        else:
            shown = content_part(part)
            content.append(shown)
            if is_plain_text(shown):
                gathered.add_text(shown["text"])
            else:
                gathered.add_other(len(content) - 1)
    return gathered, calls, content


def _call(part: Members) -> ToolCall:
    left = {name: value for name, value in part.items() if name not in _READ and value is not None}
    arguments = arguments_of(part.get("arguments"))
    return ToolCall(as_text(part.get("id")) or "", as_text(part.get("name")) or "", arguments, extra=left)


def _result(part: Members) -> Message:
    left = {name: value for name, value in part.items() if name not in _READ and value is not None}
    said = part.get("response", part.get("result"))
    content = said if isinstance(said, str | None) else _shown(said)
    return Message("tool", content, call_id=as_text(part.get("id")), name=as_text(part.get("name")), extra=left)


def _shown(said: Payload) -> str | list[Payload]:
    """Return a result as content: a list of parts as parts, any other value as JSON text."""
    if isinstance(said, list) and said and all(isinstance(part, dict) and _says_what(part) for part in said):
        return [content_part(part) for part in said]
    return to_json(said)


def content_part(part: Members) -> Members:
    """Return a part of a content in the common form: texts, and images as OpenAI has them; any other as it is."""
    kind, content = kind_of(part), part.get("content")
    if kind in _TEXT and isinstance(text := part.get("text", content), str):
        left = {name: value for name, value in part.items() if name not in {"type", "content", "text"} and value}
        return text_part(text, left)
    address = _image_address(part)
    return part if address is None else {"type": "image_url", "image_url": {"url": address}}


def _image_address(part: Members) -> str | None:
    """Return the address of an image, a data URI if it is in the part."""
    media = as_text(part.get("mime_type")) or as_text(part.get("media_type")) or ""
    if part.get("modality") != "image" and not media.startswith("image/") and part.get("type") != "image-url":
        return None
    if isinstance(url := part.get("uri") or part.get("url"), str):
        return url
    content = part.get("content")
    return f"data:{media or 'image/png'};base64,{content}" if isinstance(content, str) and media else None


def parts_in(text: Payload) -> list[Members]:
    """Return the parts of a list of parts, which may be a JSON text, as system instructions are."""
    value = parsed(text)
    if isinstance(value, str):
        return [text_part(value)]
    return [part if isinstance(part, dict) else text_part(str(part)) for part in as_list(value)]
