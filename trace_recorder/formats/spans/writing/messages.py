"""Messages in the form of the GenAI conventions: JSON texts of `gen_ai.input.messages` and related attributes.

The schemas are those of the conventions (gen-ai-input-messages.json, gen-ai-output-messages.json,
gen-ai-system-instructions.json, gen-ai-tool-definitions.json). A message that many calls repeat is encoded once. The
span of a call shows the whole prompt, or only the messages after the prompt that it extends (`prompt_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trace_recorder.dialects.dialect import dialect_of
from trace_recorder.figures.content.chat_form import is_function
from trace_recorder.figures.content.finish_reasons import Ending, ending_of
from trace_recorder.figures.content.kinds import kind_of_part
from trace_recorder.values.content_parts import Image, Part, Text, images_of, parts_of
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import MadeOnce
from trace_recorder.values.messages import Block, Choice, LLMResponse, Message, Payload, Tool, ToolCall, without_none

_FINISH_REASONS: dict[Ending | None, str] = {
    "stop": "stop",
    "tools": "tool_call",
    "length": "length",
    "filter": "content_filter",
    "failed": "error",
}

_PARTS = frozenset({"text", "reasoning", "tool_call", "tool_call_response", "blob", "uri", "file"})
"""The conventions' own types of parts.

A part of a provider may have a type with the same name, but then its members differ from those of the conventions.
"""


def attribute_json(value: Payload) -> str:
    """Return a value as JSON text that UTF-8 can encode."""
    return encodable(_write_json(value))


_write_json = make_json_writer(",", ":")


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: a lone surrogate becomes its escape."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


MAX_KEPT_CHARACTERS = 16 * 1024 * 1024
"""`MessageTexts` keeps encoded messages for later calls.

When the kept messages have more characters than this, all of them are forgotten.
"""


class MessageTexts:
    """The JSON texts of messages. A message that several calls share is encoded once, as long as its text is kept."""

    def __init__(self, max_characters: int = MAX_KEPT_CHARACTERS) -> None:
        self._texts = MadeOnce.by(self._text)
        self._tools: tuple[Sequence[Tool], str] = (), "[]"
        self._kept = 0
        self._max_characters = max_characters

    def array(self, messages: Sequence[Message]) -> str:
        """Return messages as one JSON array."""
        text = f"[{','.join(self._texts.of(messages))}]"
        if self._kept > self._max_characters:
            self._texts.clear()
            self._kept = 0
        return text

    def tools(self, tools: Sequence[Tool]) -> str:
        """Return the definitions of tools."""
        if tools is not self._tools[0]:
            self._tools = tools, attribute_json([*map(definition_of, tools)])
        return self._tools[1]

    def _text(self, message: Message) -> str:
        text = attribute_json(span_message(message))
        self._kept += len(text)
        return text


def instruction_count(call: LLMInteraction, messages: Sequence[Message]) -> int:
    """Return how many of the first messages are instructions that were sent separately from the conversation."""
    dialect = dialect_of(call.api)
    if dialect is None or not dialect.instructions_apart:
        return min(call.source.request_without_messages().instructions, len(messages))
    roles = (number for number, message in enumerate(messages) if message.role != "system")
    return next(roles, len(messages))


def instructions_text(messages: Iterable[Message], *, as_texts: bool = False) -> str:
    """Return the parts of instructions as JSON. If `as_texts` is True, parts that are not text become texts."""
    parts = [part for message in messages for part in _content_parts(message)]
    if as_texts:
        parts = [*map(_as_text, parts)]
    return attribute_json(parts)


def _as_text(part: dict[str, Payload]) -> dict[str, Payload]:
    if part.get("type") == "text":
        return part
    return {"type": "text", "content": attribute_json(part)}


def span_message(message: Message) -> dict[str, Payload]:
    """Return a message of a prompt."""
    if message.role == "tool":
        return _result_message(message)
    parts = [*_content_parts(message), *map(call_part, message.tool_calls)]
    if message.reasoning:
        parts.insert(0, _reasoning(message.reasoning))
    return {"role": message.role, "parts": parts, **without_none(name=message.name)}


def _result_message(message: Message) -> dict[str, Payload]:
    response: Payload = message.content
    if not isinstance(response, str):
        response = [*_content_parts(message)]
    part = {"type": "tool_call_response", **without_none(id=message.call_id), "response": response}
    return {"role": "tool", "parts": [part], **without_none(name=message.name)}


def outputs_of(response: LLMResponse, *, with_reasons: bool = True) -> list[dict[str, Payload]]:
    """Return the answers of a response: a message for each choice, with its parts in order and its finish reason."""
    answers: Sequence[Choice | LLMResponse] = [response]
    if len(response.choices) > 1:
        answers = response.choices
    outputs = []
    for answer in answers:
        output: dict[str, Payload] = {"role": "assistant", "parts": [*_answer_parts(answer)]}
        if with_reasons:
            output |= without_none(finish_reason=finish_reason_of(answer.finish_reason))
        outputs.append(output)
    return outputs


def finish_reason_of(reason: str | None) -> str | None:
    """Return the conventions' word for why a model stopped. A reason without such a word is returned unchanged."""
    return _FINISH_REASONS.get(ending_of(reason), reason)


def call_part(call: ToolCall) -> dict[str, Payload]:
    """Return a tool call as a part of a message."""
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.arguments}


def definition_of(tool: Tool) -> Payload:
    """Return the definition of a tool. If the declaration is not a function, its members stay as they were sent."""
    if is_function(tool) or not isinstance(tool.raw, dict):
        description = without_none(description=tool.description, parameters=tool.parameters)
        return {"type": "function", "name": tool.name, **description}
    kind = tool.raw.get("type")
    if not isinstance(kind, str):
        kind = "function"
    return {**tool.raw, "type": kind, "name": tool.name}


def _answer_parts(answer: Choice | LLMResponse) -> Iterator[dict[str, Payload]]:
    calls = [*answer.tool_calls]
    for block in answer.blocks:
        part = _block_part(block, calls)
        if part is not None:
            yield part
    yield from map(call_part, calls)
    yield from map(_part, images_of(answer))


def _block_part(block: Block, calls: list[ToolCall]) -> dict[str, Payload] | None:
    """Return the part of a block, or None. If the block is a tool call, the call is removed from `calls`."""
    if block.type == "reasoning":
        return _reasoning(block.text or "")
    if block.type == "text":
        return {"type": "text", "content": _text_or_json(block.text)}
    if block.type != "tool_call":
        return None
    for number, call in enumerate(calls):
        if call.call_id == block.call_id:
            return call_part(calls.pop(number))
    return None


def _reasoning(text: Payload) -> dict[str, Payload]:
    return {"type": "reasoning", "content": _text_or_json(text)}


def _text_or_json(value: Payload) -> str:
    if isinstance(value, str):
        return value
    return attribute_json(value)


def _content_parts(message: Message) -> Iterator[dict[str, Payload]]:
    yield from map(_part, parts_of(message))


def _part(part: Part) -> dict[str, Payload]:
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Image):
        kind = without_none(mime_type=part.media_type)
        if part.data is not None:
            return {"type": "blob", **kind, "modality": "image", "content": part.data}
        return {"type": "uri", **kind, "modality": "image", "uri": part.address}
    raw = part.raw
    if isinstance(raw, dict) and isinstance(raw.get("type"), str) and raw["type"] not in _PARTS:
        return raw
    return {"type": kind_of_part(raw) or "other", "content": raw}


@dataclass(frozen=True, slots=True)
class SpanPrompt:
    """The messages and tools of a call.

    `omitted` is how many messages at the beginning are left out. The omitted messages are the messages of the call with
    the id `continues`.
    """

    instructions: Sequence[Message] = ()
    messages: Sequence[Message] = ()
    tools: Sequence[Tool] = ()
    is_known: bool = True
    omitted: int = 0
    continues: str | None = None


def prompt_of(call: LLMInteraction, extended: LLMInteraction | None) -> SpanPrompt:
    """Return the prompt of a call.

    If the prompt extends the prompt of the call `extended`, only the new messages are returned.
    """
    if not call.source.has_request():
        return SpanPrompt(is_known=False)
    sent, tools = call.input_messages, call.tools
    if extended is not None:
        if len(tools) == len(extended.tools) and tools == extended.tools:
            tools = ()
        omitted = len(extended.input_messages)
        return SpanPrompt(messages=sent[omitted:], tools=tools, omitted=omitted, continues=extended.interaction_id)
    count = instruction_count(call, sent)
    return SpanPrompt(sent[:count], sent[count:], tools)
