"""The text of a tool result: the text that the model got, or otherwise the text of the tool's value."""

from __future__ import annotations

from typing import Any

import pytest

from trace_recorder.figures.content.chat_form import result_text, text_of_result_message
from trace_recorder.values.messages import Message, ToolResult

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
def test_a_result_shown_to_the_model_has_the_text_of_its_message(shown: Payload, text: str) -> None:
    """If the model got an empty message for an object that the tool returned, the text is empty."""
    result = ToolResult("c", name="look", success=True, result={"lines": 3}, sent=shown)

    assert result_text(result) == text_of_result_message(Message("tool", shown)) == text


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
def test_a_result_that_was_not_shown_has_the_text_of_the_tool_s_value(result: ToolResult, text: str) -> None:
    """A string is unchanged, a missing value is the empty text, and any other value is JSON."""
    assert result_text(result) == text
