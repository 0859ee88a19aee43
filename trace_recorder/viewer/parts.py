"""The contents of messages, answers and results as parts, and the details of one interaction or step, which consist of
parts.

A part is a text, reasoning, a tool call, an image, or other JSON. Texts are unchanged. A JSON answer about several
messages has only the beginning of a long part, and a mark (`CUT`). A JSON answer about one message has whole parts
(`WHOLE`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_recorder.figures.content.kinds import kind_of_part
from trace_recorder.values.content_parts import Image, Other, Part, Text, images_of, parts_of
from trace_recorder.values.json_text import write_json
from trace_recorder.values.llm_interaction import Attempt, LLMInteraction, pause_between
from trace_recorder.values.messages import (
    Choice,
    LLMResponse,
    MCPCall,
    Message,
    Payload,
    ToolCall,
    ToolResult,
    without_none,
)
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import AgentStep

EXCERPT_CHARACTERS = 200
"""`excerpt` returns at most this many characters."""

ARGUMENT_CHARACTERS = 120
"""`first_argument` returns at most this many characters."""
WORD_CHARACTERS = 20
"""`first_argument` assumes that a word of at most this many characters names an action, such as "view"."""

Json = dict[str, Payload]


@dataclass(frozen=True, slots=True)
class TextLimits:
    """The largest sizes of a part, in characters: of a text or of JSON, and of an image's base64.

    None means no limit.
    """

    text: int | None = 20_000
    image: int | None = 400_000


CUT = TextLimits()
WHOLE = TextLimits(None, None)


def limited_text_part(kind: str, text: str, limits: TextLimits) -> Json:
    """Return a part that is a text: `text` or `reasoning`."""
    if limits.text is None or len(text) <= limits.text:
        return {"type": kind, "text": text}
    return {"type": kind, **_beginning(text, limits.text)}


def json_part(value: Payload, limits: TextLimits, kind: str | None = None) -> Json:
    """Return a part with any JSON. A large value is cut to the beginning of its JSON text."""
    return {"type": "json", "kind": kind, **_cut_json(value, limits)}


def _cut_json(value: Payload, limits: TextLimits) -> Json:
    if limits.text is None or not isinstance(value, str | list | dict):
        return {"value": value}
    text = write_json(value)
    if len(text) <= limits.text:
        return {"value": value}
    return _beginning(text, limits.text)


def _optional_text(text: str | None, limits: TextLimits) -> Json | None:
    if text is None or text == "":
        return None
    return limited_text_part("text", text, limits)


def _optional_json(value: Payload, limits: TextLimits) -> Json | None:
    if not value:
        return None
    return json_part(value, limits)


def value_parts(value: Payload, limits: TextLimits) -> list[Json]:
    """Return a value, such as a tool's result, as parts: a text, the parts of a message's content, or JSON."""
    if value is None:
        return []
    if isinstance(value, str):
        return [limited_text_part("text", value, limits)]
    if isinstance(value, list):
        parts = parts_of(Message("tool", value))
        if parts and not any(isinstance(part, Other) for part in parts):
            return [_content_part(part, limits) for part in parts]
    return [json_part(value, limits)]


def tool_call_part(call: ToolCall, limits: TextLimits) -> Json:
    """Return a tool call as a part."""
    part: Json = {"type": "tool_call", "call_id": call.call_id, "name": call.name}
    if call.call_id_made_up:
        part["call_id_made_up"] = True
    cut = _cut_json(call.arguments, limits)
    if "value" in cut:
        return part | {"arguments": cut["value"]}
    return part | cut


def message_parts(message: Message, limits: TextLimits) -> list[Json]:
    """Return the reasoning, the content and the tool calls of a message."""
    parts = []
    if message.reasoning:
        parts.append(limited_text_part("reasoning", message.reasoning, limits))
    parts += [_content_part(part, limits) for part in parts_of(message)]
    return parts + [tool_call_part(call, limits) for call in message.tool_calls]


def message_json(number: int | None, message: Message, limits: TextLimits) -> Json:
    """Return a message. `number` is None if the message was not sent to a model."""
    return without_none(
        number=number,
        role=message.role,
        call_id=message.call_id,
        name=message.name,
        is_error=True if message.extra.get("is_error") is True else None,
        characters=characters_of(message),
        parts=message_parts(message, limits),
    )


def answer_parts(answer: LLMResponse | Choice, limits: TextLimits) -> list[Json]:
    """Return the parts of an answer in their order."""
    calls = {call.call_id: call for call in answer.tool_calls}
    parts: list[Json] = []
    for block in answer.blocks:
        if block.type == "tool_call":
            call = calls.get(block.call_id or "")
            if call is not None:
                parts.append(tool_call_part(call, limits))
        elif block.type == "other":
            parts.append(json_part(_other_block(answer, block.position), limits))
        else:
            parts.append(limited_text_part(block.type, block.text or "", limits))
    return parts + [_content_part(part, limits) for part in images_of(answer)]


def _other_block(answer: LLMResponse | Choice, position: int | None) -> Payload:
    """Return the block or item at `position` in the provider's list, which the answer's `extra` has."""
    lists = (answer.extra.get(name) for name in ("content", "parts", "output", "steps", "outputs"))
    blocks = next((value for value in lists if isinstance(value, list)), [])
    if position is None or position >= len(blocks):
        return None
    return blocks[position]


def _content_part(part: Part, limits: TextLimits) -> Json:
    if isinstance(part, Text):
        return limited_text_part("text", part.text, limits)
    if isinstance(part, Image):
        return _image_part(part, limits)
    return json_part(part.raw, limits, kind_of_part(part.raw))


def _image_part(image: Image, limits: TextLimits) -> Json:
    part: Json = {"type": "image", "media_type": image.media_type}
    if image.data is None:
        return part | {"url": image.url}
    if limits.image is None or len(image.data) <= limits.image:
        return part | {"data": image.data}
    return part | {"cut": True, "characters": len(image.data)}


def _beginning(text: str, limit: int) -> Json:
    return {"text": text[:limit], "cut": True, "characters": len(text)}


# ── lengths and excerpts ─────────────────────────────────────────────────────────────────────────────────────────────


def characters_of(message: Message) -> int:
    """Return the length of a message: of its texts, and of its tool calls and other parts as JSON."""
    content = sum(map(_length_of_part, parts_of(message)))
    calls = sum(len(call.name) + _length_of(call.arguments) for call in message.tool_calls)
    return content + calls + len(message.reasoning or "")


def _length_of_part(part: Part) -> int:
    if isinstance(part, Text):
        return len(part.text)
    if isinstance(part, Image):
        return len(part.data or part.url or "")
    return _length_of(part.raw)


def _length_of(value: Payload) -> int:
    if isinstance(value, str):
        return len(value)
    return len(write_json(value))


def excerpt(value: Payload) -> str | None:
    """Return the beginning of a text, or of a value's JSON, on one line. Return None if there is no text."""
    if value is None or value == "":
        return None
    limit = 8 * EXCERPT_CHARACTERS
    if not isinstance(value, str):
        value = "".join(_up_to(_encoder.iterencode(value), limit))
    return " ".join(value[:limit].split())[:EXCERPT_CHARACTERS]


def first_argument(arguments: Payload) -> str | None:
    """Return the first argument of a tool call on one line, such as the command, the path or the query.

    If the first argument is only a word such as "view", which names an action, the second argument follows.
    """
    if not isinstance(arguments, dict):
        return _argument_text(arguments)
    first, second = [*arguments.values(), None, None][:2]
    text = _argument_text(first)
    is_word = isinstance(first, str) and first.isidentifier() and len(first) <= WORD_CHARACTERS
    if text and is_word and isinstance(second, str) and second:
        return f"{text} · {_argument_text(second)}"[:ARGUMENT_CHARACTERS]
    return text


def _argument_text(value: Payload) -> str | None:
    """Return an argument on one line. If the argument is a list of words, such as a command, the words are joined."""
    if value in ([], {}):
        return None
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value[:ARGUMENT_CHARACTERS])
    text = excerpt(value)
    if text is None:
        return None
    return text[:ARGUMENT_CHARACTERS]


def _up_to(pieces: Iterable[str], limit: int) -> Iterator[str]:
    """Yield pieces until they have `limit` characters, so that a large value is not encoded as a whole."""
    for piece in pieces:
        yield piece[:limit]
        limit -= len(piece)
        if limit <= 0:
            return


_encoder = json.JSONEncoder(ensure_ascii=False)


# ── details of one interaction or step ───────────────────────────────────────────────────────────────────────────────


def interaction_detail(number: int, interaction: LLMInteraction, limits: TextLimits) -> Json:
    """Return the answer and the attempts of an interaction."""
    return {
        "number": number,
        "response": response_json(interaction.response, limits) if interaction.answered else None,
        "error": interaction.error and interaction.error.to_document(),
        "attempts": _attempts(interaction.attempts),
    }


def _attempts(attempts: Sequence[Attempt]) -> list[Json]:
    unknown: Json = {"status": None, "error": None, "duration_seconds": None, "headers": {}, "inferred": False}
    return [
        {**unknown, "pause_seconds": before and pause_between(before, attempt), **attempt.to_document()}
        for before, attempt in zip([None, *attempts], attempts, strict=False)
    ]


def response_json(response: LLMResponse, limits: TextLimits) -> Json:
    """Return the answer of a model. The member `given` is the response as the agent passed it to the recorder."""
    choices: Sequence[Choice] = ()
    if len(response.choices) > 1:
        choices = response.choices
    stated = without_none(given=_optional_json(response.given, limits), audio_end_ms=response.audio_end_ms)
    return stated | {
        "id": response.id,
        "model": response.model,
        "finish_reason": response.finish_reason,
        "parts": answer_parts(response, limits),
        "choices": [_choice(choice, limits) for choice in choices],
        "usage": response.usage.to_document() or None,
        "extra": _optional_json(response.extra, limits),
    }


def _choice(choice: Choice, limits: TextLimits) -> Json:
    return {
        "index": choice.index,
        "finish_reason": choice.finish_reason,
        "parts": answer_parts(choice, limits),
        "extra": _optional_json(choice.extra, limits),
    }


def step_detail(number: int, step: AgentStep, limits: TextLimits, *, server_messages: bool = False) -> Json:
    """Return a step with its tool calls and results, and with the messages and the answer that only the step has.

    If `server_messages` is True, each call of an MCP server has its request and its answer as they were sent.
    """
    messages = None
    if step.messages is not None:
        messages = [message_json(None, message, limits) for message in step.messages]
    return {
        "number": number,
        "reflection": _optional_text(step.reflection, limits),
        "error": _optional_text(step.error, limits),
        "messages": messages,
        "response": _own_response(step, limits),
        "tool_calls": [
            _call(call, result, limits, server_messages=server_messages)
            for _, call, result in tool_uses(step.tool_calls, step.tool_results)
        ],
        "extra": _optional_json(step.extra, limits),
    }


def _own_response(step: AgentStep, limits: TextLimits) -> Json | None:
    """Return the answer that the agent recorded in a step, or None if the call of the step has the same answer."""
    response = step.llm_response
    if response is None or response.given == {} or (step.interaction and response == step.interaction.response):
        return None
    return response_json(response, limits)


def _call(call: ToolCall | None, result: ToolResult | None, limits: TextLimits, *, server_messages: bool) -> Json:
    source = call or result
    members: Json = {
        "call_id": source and source.call_id,
        "name": source and source.name,
        "arguments": call and json_part(call.arguments, limits),
        "result": result and result_json(result, limits, server_messages=server_messages),
    }
    if call is None:
        members["unrequested"] = True
    return members


def result_json(result: ToolResult, limits: TextLimits, *, server_messages: bool) -> Json:
    """Return the result of a tool. `mcp` has the calls of MCP servers, if there are any."""
    calls = [_server_call(call, limits, with_messages=server_messages) for call in result.mcp]
    return without_none(mcp=calls or None) | {
        "success": result.success,
        "parts": value_parts(result.result, limits),
        "error": limited_text_part("text", result.error, limits) if result.error is not None else None,
        "sent": value_parts(result.sent, limits) or None,
        "duration_seconds": result.duration_seconds,
        "execution_id": result.execution_id,
    }


def _server_call(call: MCPCall, limits: TextLimits, *, with_messages: bool) -> Json:
    """Return a call of a tool at an MCP server."""
    members: Json = {
        "server": call.server,
        "version": call.version,
        "tool": call.tool,
        "joined_by": call.joined_by,
        "success": call.success,
        "progress": call.progress,
        "duration_seconds": call.duration_seconds,
    }
    if call.structured_content is not None:
        members["structured_content"] = json_part(call.structured_content, limits)
    if with_messages:
        members["messages"] = [*call.messages]
    return members
