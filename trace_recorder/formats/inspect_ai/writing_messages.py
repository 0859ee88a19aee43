"""Messages, answers, tools and tokens in the form of Inspect's logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.dialects.message_text import text_of
from trace_recorder.figures.content.chat_form import arguments_object
from trace_recorder.figures.content.finish_reasons import Ending, ending_of
from trace_recorder.formats.spans.writing.messages import attribute_json
from trace_recorder.values.content_parts import Image, Part, Text, parts_of
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Block, Choice, LLMResponse, Message, Payload, Tool, ToolCall, without_none
from trace_recorder.values.number_ranges import RangeDivider
from trace_recorder.values.token_counts import Counts, counts_of, stated_cost

_STOP_REASONS: dict[Ending | None, str] = {
    "stop": "stop",
    "tools": "tool_calls",
    "length": "max_tokens",
    "filter": "content_filter",
}
_ROLES = {"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}
_SCHEMA_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_MAX_DEPTH = 8


class MessagePool:
    """The distinct messages of a run. Events refer to them by their numbers."""

    def __init__(self) -> None:
        self._distinct = EqualMessages(_digest)
        self._ranges = RangeDivider(beyond=1)

    @property
    def messages(self) -> list[dict[str, Payload]]:
        """The messages by their numbers."""
        distinct = enumerate(self._distinct.messages, start=1)
        return [{"id": f"message_{number}", **log_message(message)} for number, message in distinct]

    def references(self, messages: Sequence[Message]) -> list[list[int]]:
        """Return the numbers of messages as ranges. The end of a range is the number after its last message."""
        return self._ranges.of(self._distinct.numbers_of(messages))


def _digest(message: Message) -> bytes:
    """Return a digest of Inspect's form of the message, with its members in order."""
    return blake2b(attribute_json(log_message(message)).encode(), digest_size=16).digest()


def log_message(message: Message) -> dict[str, Payload]:
    """Return a message of a prompt."""
    role = _ROLES.get(message.role, "user")
    parts = [*map(_content, parts_of(message))]
    if message.reasoning:
        parts.insert(0, _reasoning(message.reasoning))
    members: dict[str, Payload] = {"role": role, "content": _plain(parts)}
    if role == "tool":
        members |= without_none(tool_call_id=message.call_id, function=message.name)
        if as_dict(message.extra).get("is_error") is True:
            members["error"] = log_error(text_of(message))
        return members
    if role == "assistant" and message.tool_calls:
        members["tool_calls"] = [*map(log_call, message.tool_calls)]
    return members


def log_error(message: str) -> dict[str, Payload]:
    """Return the error of a tool, with the kind that Inspect requires."""
    return {"type": "unknown", "message": message}


def log_call(call: ToolCall) -> dict[str, Payload]:
    """Return a tool call."""
    return {"id": call.call_id, "function": call.name, "arguments": arguments_object(call), "type": "function"}


def output_of(call: LLMInteraction) -> dict[str, Payload]:
    """Return the output of a model: its choices and tokens, or its error."""
    response, counts = call.response, counts_of(call)
    model = response.model or call.model or "unknown"
    answers: Sequence[Choice | LLMResponse] = [response]
    if not call.answered:
        answers = []
    elif len(response.choices) > 1:
        answers = response.choices
    output: dict[str, Payload] = {
        "model": model,
        "choices": [
            {
                "message": _answer(choice, model),
                "stop_reason": _STOP_REASONS.get(ending_of(choice.finish_reason), "unknown"),
            }
            for choice in answers
        ],
        "completion": as_text(response.content) or "",
    }
    if counts is not None:
        output["usage"] = log_usage(counts, stated_cost(call))
    output |= without_none(time=call.duration_seconds)
    if call.error is not None:
        output["error"] = f"{call.error.type}: {call.error.message}"
    return output


def log_usage(counts: Counts, cost: float | None = None) -> dict[str, Payload]:
    """Return tokens as Inspect counts them. The input tokens of Inspect do not include cached tokens."""
    read, write, output = counts.cache_read or 0, counts.cache_write or 0, counts.completion or 0
    prompt = counts.prompt or 0
    return {
        "input_tokens": max(0, prompt - read - write),
        "output_tokens": output,
        "total_tokens": prompt + output,
        **without_none(
            input_tokens_cache_write=counts.cache_write,
            input_tokens_cache_read=counts.cache_read,
            reasoning_tokens=counts.reasoning,
            total_cost=cost,
        ),
    }


def tool_of(tool: Tool) -> dict[str, Payload]:
    """Return a tool, with the parts of its schema that Inspect supports."""
    parameters = _schema(as_dict(tool.parameters), 0)
    properties = parameters.get("properties", {})
    required = [name for name in parameters.get("required", ()) if isinstance(name, str) and name in properties]
    shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": tool.name, "description": tool.description or "", "parameters": shape}


def _schema(schema: Mapping[str, Payload], depth: int) -> dict[str, Payload]:
    """Return the members of a JSON schema that Inspect supports. If `type` is a list, it becomes `anyOf`."""
    kind = schema.get("type")
    members: dict[str, Payload] = {}
    if isinstance(kind, str) and kind in _SCHEMA_TYPES:
        members["type"] = kind
    if isinstance(schema.get("description"), str):
        members["description"] = schema["description"]
    for name in ("enum", "required"):
        if isinstance(schema.get(name), list):
            members[name] = schema[name]
    if depth == _MAX_DEPTH:
        return members
    kinds = [{"type": name} for name in as_list(kind) if isinstance(name, str) and name in _SCHEMA_TYPES]
    alternatives = [_schema(inner, depth + 1) for inner in as_list(schema.get("anyOf")) if isinstance(inner, dict)]
    if alternatives or kinds:
        members["anyOf"] = alternatives or kinds
    items, properties = schema.get("items"), schema.get("properties")
    if isinstance(items, dict):
        members["items"] = _schema(items, depth + 1)
    if isinstance(properties, dict):
        members["properties"] = {
            name: _schema(inner, depth + 1) for name, inner in properties.items() if isinstance(inner, dict)
        }
    return members


def _answer(answer: Choice | LLMResponse, model: str) -> dict[str, Payload]:
    parts = [*_answer_parts(answer.blocks)]
    members = {"role": "assistant", "content": _plain(parts), "source": "generate", "model": model}
    if answer.tool_calls:
        members["tool_calls"] = [*map(log_call, answer.tool_calls)]
    return members


def _answer_parts(blocks: Sequence[Block]) -> Iterator[dict[str, Payload]]:
    for block in blocks:
        text: Payload = block.text
        if not isinstance(text, str | None):
            text = attribute_json(text)
        if block.type == "reasoning":
            yield _reasoning(text or "")
        elif block.type == "text":
            yield {"type": "text", "text": text or ""}


def _plain(parts: Sequence[dict[str, Payload]]) -> Payload:
    """Return parts as the content of a message. A single text becomes a string."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return [*parts]


def _reasoning(text: str) -> dict[str, Payload]:
    return {"type": "reasoning", "reasoning": text}


def _content(part: Part) -> dict[str, Payload]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image):
        return {"type": "image", "image": part.address, "detail": "auto"}
    if isinstance(part.raw, dict):
        return {"type": "data", "data": part.raw}
    return {"type": "data", "data": {"value": part.raw}}
