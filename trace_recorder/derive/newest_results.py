"""The tool results that a request brings back: those since the model last spoke."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile

from trace_recorder.values.messages import Message, Payload, ToolResult


def newest_results(messages: Sequence[Message]) -> list[ToolResult]:
    """Return the tool results of a request since the model last spoke; `TablePrompts` gathers them as it reads."""
    newest = takewhile(lambda message: message.role != "assistant", reversed(messages))
    return [result_of(message) for message in newest if message.role == "tool"][::-1]


def result_of(message: Message) -> ToolResult:
    """Read a tool message as a result. Whether the tool failed is unknown in dialects that do not say so."""
    failed = message.extra.get("is_error")
    if failed is True:
        return ToolResult(message.call_id or "", name=message.name, success=False, error=_error_text(message.content))
    success = True if failed is False else None
    return ToolResult(message.call_id or "", name=message.name, success=success, result=message.content)


def _error_text(content: Payload) -> str:
    """An error as text: text parts one a line; anything else as JSON."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    said = [text for text in texts if isinstance(text, str)]
    if len(said) == len(texts):
        return "\n".join(said)
    return "" if content is None else json.dumps(content, ensure_ascii=False)
