"""The parts of a chat session of VS Code: rendered messages, thoughts, calls and results of tools, what was shown.

Results of tools are rendered trees (`prompt-tsx`), in which some nodes are texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import (
    arguments_of,
    as_dict,
    as_list,
    as_text,
    content_of,
    join_texts,
    text_part,
)
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload, ToolCall

_TEXT_NODE = 2


@dataclass(slots=True)
class Shown:
    """The parts of one answer that the window showed: texts and thoughts, then tools with their results."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[tuple[str, Payload]] = field(default_factory=list)


def rendered(parts: Payload) -> str | None:
    """Return the texts of a message as it was sent; None if it was not kept. Marks for the cache have no text."""
    return as_text(parts) or join_texts((as_text(as_dict(part).get("text")) for part in as_list(parts)), "\n") or None


def thought_of(thinking: Payload) -> str | None:
    """Return the text of thoughts, which may be in several parts."""
    text = as_dict(thinking).get("text", as_dict(thinking).get("value"))
    return as_text(text) or join_texts(map(as_text, as_list(text)), "") or None


def tool_call(asked: Payload) -> ToolCall:
    """Read a call of a tool in a round."""
    call = as_dict(asked)
    return ToolCall(as_text(call.get("id")) or "", as_text(call.get("name")) or "", arguments_of(call.get("arguments")))


def result_content(parts: Payload) -> str | list[Payload] | None:
    """Return the content of a tool's result: texts, trees as their texts, and any other part as it is."""
    return content_of([_result_part(part) for part in as_list(parts)])


def _result_part(part: Payload) -> Payload:
    value = as_dict(part).get("value")
    if isinstance(value, str):
        return text_part(value)
    node = as_dict(value).get("node")
    return part if node is None else text_part("".join(_texts(node)).removeprefix("\n"))


def _texts(node: Payload) -> Iterator[str]:
    members = as_dict(node)
    if members.get("lineBreakBefore") is True:
        yield "\n"
    if members.get("type") == _TEXT_NODE:
        yield as_text(members.get("text")) or ""
    for child in as_list(members.get("children")):
        yield from _texts(child)


def shown_in(parts: list[Payload]) -> Iterator[Shown]:
    """Yield the parts of each answer that a window showed. A text or a thought after a tool begins the next answer."""
    shown = Shown()
    for part in parts:
        members = as_dict(part)
        kind = as_text(members.get("kind"))
        text, is_thought = _shown_text(part, members, kind), kind == "thinking"
        if text and shown.calls:
            yield shown
            shown = Shown()
        if text:  # a key is found in each part, before parts are joined
            (shown.thoughts if is_thought else shown.texts).append(default_redactor(text))
        elif kind in ("toolInvocationSerialized", "toolInvocation"):
            _add_tool(shown, members)
    if shown.texts or shown.thoughts or shown.calls:
        yield shown


def _shown_text(part: Payload, members: dict[str, Payload], kind: str | None) -> str | None:
    """Return the text of a part that the model wrote: Markdown, a reference, a thought; None for any other part."""
    if kind is None or kind in ("markdownContent", "markdownVuln"):
        content = members.get("content", members.get("value"))
        return as_text(part) or as_text(content) or as_text(as_dict(content).get("value"))
    if kind == "thinking":
        return thought_of(members)
    if kind == "inlineReference":
        place = as_dict(members.get("inlineReference"))
        path = as_text(place.get("path")) or as_text(as_dict(place.get("uri")).get("path")) or ""
        return as_text(members.get("name")) or as_text(place.get("name")) or path.rpartition("/")[2]
    return None


def _add_tool(shown: Shown, members: dict[str, Payload]) -> None:
    call_id = as_text(members.get("toolCallId")) or ""
    special = as_dict(members.get("toolSpecificData"))
    details = as_dict(members.get("resultDetails"))
    line = as_dict(special.get("commandLine"))
    written = details.get("input") or special.get("rawInput") or as_text(line.get("original")) or special.get("command")
    shown.calls.append(ToolCall(call_id, as_text(members.get("toolId")) or "", arguments_of(written)))
    if output := as_list(details.get("output")):
        shown.results.append((call_id, content_of([_result_part(part) for part in output])))
