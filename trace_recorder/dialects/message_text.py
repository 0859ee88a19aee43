"""The texts of a message as one text, joined by the rule that all dialects share (`blocks.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.dialects.blocks import Blocks, is_reference
from trace_recorder.values.content_parts import Other, Part, Text, parts_of
from trace_recorder.values.messages import Message


def text_of(message: Message) -> str:
    """Return the texts of a message as one text.

    If a part that is not text is between two texts, a blank line separates these texts.
    """
    return text_of_parts(parts_of(message))


def text_of_parts(parts: Iterable[Part]) -> str:
    """Return the texts of parts as one text, joined by the rule that all dialects share (`Blocks`)."""
    blocks = Blocks()
    for part in parts:
        if isinstance(part, Text):
            blocks.add_text(part.text)
        elif not (isinstance(part, Other) and is_reference(part.raw)):
            blocks.add_other()
    return blocks.all_text() or ""
