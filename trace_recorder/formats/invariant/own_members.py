"""The members that our view writes into the free `metadata` of messages, tool calls and annotations.

`writing.py` writes them, and `reading.py` reads them back. All members are optional.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.values.messages import Payload


class InvariantMetadata(TypedDict, total=False):
    """The `metadata` of a message."""

    agent: Payload
    agent_id: Payload
    parent_agent_id: Payload
    interaction_id: Payload
    timestamp: Payload
    step_number: Payload
    provider: Payload
    api: Payload
    model: Payload
    finish_reason: Payload
    usage: Payload
    replayed_from: Payload
    duration_seconds: Payload
    complete: Payload
    """False if the answer is incomplete, and otherwise absent."""
    run_inferred: Payload
    other_answers: Payload
    asked_by_model: Payload
    """False if no model asked for the tools of the message, and otherwise absent."""
    shown_to_model: Payload
    """False if no model saw the message, and otherwise absent."""
    reasoning: Payload
    name: Payload
    original_role: Payload
    is_error: Payload
    extra: Payload
    parts: Payload
    """The parts of the content that the format does not support. `name_of_part` is the text in their place."""
    result: Payload
    """The value that a tool returned, if the content is another."""


class InvariantCallMetadata(TypedDict, total=False):
    """The `metadata` of a tool call."""

    call_id: Payload
    """The id that the model gave, if the call was written under another."""
    extra: Payload
    id_made_up: Payload


AnnotationKind = Literal["annotation", "reward", "step"]
"""The `kind` in the `extra_metadata` of an annotation."""

ONLY_OURS = frozenset({"interaction_id", "asked_by_model", "shown_to_model"})
"""Members of a message's metadata that only our view writes."""
NOT_READ = frozenset({"run_inferred", "other_answers"})
"""Members of a message's metadata that have no place in an imported run, and that are kept unchanged."""


def name_of_part(part: Payload) -> str:
    """Return the text in place of a part that the format does not support. The reader restores the part."""
    members = as_dict(part)
    address = as_text(as_dict(members.get("image_url")).get("url"))
    if address is not None:
        return f"[image: {address}]"
    return f"[{members.get('type') or 'a part that is neither text nor image'}]"
