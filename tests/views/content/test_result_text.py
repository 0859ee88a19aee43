"""The text of a tool's result: the text that the model got, or else the tool's own."""

from __future__ import annotations

from typing import Any

import pytest

from trace_recorder.values.messages import Message, ToolResult
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.content.parts import text_of_message

Payload = Any
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("", ""),
        ([], ""),
        ("cut", "cut"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([IMAGE], '[{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}]'),
    ],
)
def test_what_the_model_was_shown_has_the_text_of_its_message(shown: Payload, text: str) -> None:
    """The text is empty if the model was shown nothing of an object that the tool returned."""
    result = ToolResult("c", name="look", success=True, result={"lines": 3}, sent=shown)

    assert result_text(result) == text_of_message(Message("tool", shown)) == text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("c", name="look"), ""),
        (ToolResult("c", name="look", success=True, result=""), ""),
        (ToolResult("c", name="look", success=True, result=[]), "[]"),
        (ToolResult("c", name="look", success=True, result={"a": "ö"}), '{"a": "ö"}'),
        (ToolResult("c", name="look", success=False, error="no"), "no"),
        (ToolResult("c", name="look", success=True, result=1, sent=2), "2"),
    ],
)
def test_what_was_not_shown_is_what_the_tool_gave(result: ToolResult, text: str) -> None:
    """A text is unchanged, nothing is the empty text, and any other value is JSON."""
    assert result_text(result) == text
