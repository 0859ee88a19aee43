"""Answers that have thoughts and calls of tools as tagged text, as training sets and models without tools write them.

<think>…</think> …  <tool_call>{"name": …, "arguments": …}</tool_call>
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text, json_value
from trace_recorder.imports.foreign.run import Members
from trace_recorder.values.messages import Payload, without_none

_THINK, _THOUGHT = "<think>", "</think>"
_CALL, _CALLED = "<tool_call>", "</tool_call>"


def chat_answer(text: str) -> Members:
    """Return an answer as a message in OpenAI's chat form. Text whose tags hold no call stays text."""
    thought, rest = _thought_in(text)
    parts: list[str] = []
    calls: list[Payload] = []
    for part, is_call in _parts(rest):
        found = calls_in(part) if is_call else []
        calls += found
        if not found:
            parts.append(f"{_CALL}{part}{_CALLED}" if is_call else part)
    content = "".join(parts).strip("\n") if calls or thought else text
    return {"role": "assistant", "content": content or None} | without_none(
        reasoning_content=thought, tool_calls=calls or None
    )


def calls_in(text: str) -> list[Payload]:
    """Return the calls in a JSON text, which is a call or a list of calls; no calls if the text is anything else."""
    value = json_value(text.strip())
    calls = [as_dict(call) for call in (value if isinstance(value, list) else [value])]
    if not all(as_text(call.get("name")) for call in calls):
        return []
    return [
        {
            "type": "function",
            "function": {"name": call["name"], "arguments": call.get("arguments", call.get("parameters"))},
        }
        for call in calls
    ]


def tools_in(value: Payload) -> list[Payload]:
    """Return the tools that a row offers: a list, or a JSON text of one."""
    return as_list(json_value(value) if isinstance(value, str) else value)


def _thought_in(text: str) -> tuple[str | None, str]:
    before, tag, rest = text.partition(_THOUGHT)
    if not tag or not before.lstrip().startswith(_THINK):
        return None, text
    return before.lstrip().removeprefix(_THINK).strip("\n") or None, rest


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, and whether each was between the tags of a call."""
    position = 0
    while (begin := text.find(_CALL, position)) >= 0 and (end := text.find(_CALLED, begin)) >= 0:
        yield text[position:begin], False
        yield text[begin + len(_CALL) : end], True
        position = end + len(_CALLED)
    yield text[position:], False
