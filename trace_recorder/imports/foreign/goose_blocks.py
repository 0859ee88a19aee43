"""The content of goose's messages in the form of Anthropic's blocks, which `block_messages.py` reads."""

from __future__ import annotations

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members
from trace_recorder.values.messages import Payload, without_none

_SHOWN_ONLY = {"systemNotification", "toolConfirmationRequest", "actionRequired", "frontendToolRequest"}
"""The types of parts that the user saw, and the model did not."""


def in_blocks(content: Payload) -> tuple[list[Payload], list[Payload]]:
    """Return the blocks of a message, and the parts that the model does not see."""
    blocks: list[Payload] = []
    others: list[Payload] = []
    for part in as_list(content):
        kind = as_text(as_dict(part).get("type"))
        if kind in _SHOWN_ONLY or not isinstance(part, dict):
            others.append(part)
        else:
            blocks.append(_block(kind, part))
    return blocks, others


def _block(kind: str | None, part: Members) -> Payload:
    if kind == "toolRequest":
        return _tool_use(part)
    if kind == "toolResponse":
        return _tool_result(part)
    if kind == "redactedThinking":
        return {"type": "redacted_thinking", "data": part.get("data")}
    if kind == "image" and isinstance(part.get("data"), str):
        source = {"type": "base64", "media_type": part.get("mimeType"), "data": part["data"]}
        return {"type": "image", "source": source}
    return {name: value for name, value in part.items() if name not in {"annotations", "_meta"}}


def _tool_use(part: Members) -> Members:
    """Return the call of a tool. If goose could not read the call, its arguments are the error."""
    stated = as_dict(part.get("toolCall"))
    call = as_dict(stated.get("value")) or stated
    arguments = call.get("arguments")
    if (error := as_text(stated.get("error"))) is not None:
        arguments = {"error": error}
    name = as_text(call.get("name")) or ""
    return {"type": "tool_use", "id": part.get("id"), "name": name, "input": {} if arguments is None else arguments}


def _tool_result(part: Members) -> Members:
    members = as_dict(part.get("toolResult"))
    value = members.get("value")
    content = as_list(value) or as_list(as_dict(value).get("content"))
    failed = as_dict(value).get("isError", False if members.get("status") == "success" else None)
    if members.get("status") == "error":
        return _result(part, as_text(members.get("error")), failed=True)
    texts = [as_text(as_dict(one).get("text")) for one in content]
    is_text = len(texts) == 1 and texts[0] is not None
    return _result(part, texts[0] if is_text else [_of_result(as_dict(one)) for one in content], failed=failed)


def _of_result(part: Members) -> Payload:
    return _block(as_text(part.get("type")), part)


def _result(part: Members, content: Payload, *, failed: Payload) -> Members:
    found: Members = {"type": "tool_result", "tool_use_id": part.get("id"), "content": content}
    return found | without_none(is_error=failed if isinstance(failed, bool) else None)
