"""ChatGPT's export: a tree of messages for each conversation, in which answers may be regenerated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import PRODUCED, loaded, results_in, said_in

_EXPORT = PRODUCED / "chatgpt" / "conversations.json"


def test_each_conversation_is_a_run_and_each_answer_a_call() -> None:
    first, second = loaded(_EXPORT)
    assert said_in(first) == [
        {"saw": 2, "text": None, "asked": [("python", "len([1, 2, 3])")]},
        {"saw": 4, "text": "It has three lines."},
        {"saw": 4, "text": "Three."},
        {"saw": 6, "text": None, "asked": [("web.search", {"query": "colours"})]},
        {"saw": 9, "text": "Blue, red and"},
    ]
    assert said_in(second) == [{"saw": 1, "text": "Hi."}]
    assert results_in(first) == [("a2", "python", None, "3"), ("a6", "web.search", None, "blue, red")]


def test_a_regenerated_answer_continues_a_branch() -> None:
    """The second answer to the same tool result, and the messages after it, do not see the first answer."""
    first, _ = loaded(_EXPORT)
    prompts = [[message.content for message in call.input_messages] for call in first.llm_interactions]
    assert prompts[2] == prompts[1]
    assert prompts[3][4:] == ["Three.", "And colours?"]
    assert prompts[4][7] == "blue, red"


def test_thoughts_times_models_and_stopped_answers_are_read() -> None:
    run = next(loaded(_EXPORT))
    calls = run.llm_interactions
    assert calls[0].response.reasoning == "I count with Python."
    assert [(call.timestamp[11:19], call.model) for call in calls] == [
        ("12:26:41", "o4-mini"),
        ("12:26:44", "o4-mini"),
        ("12:27:00", "gpt-4o"),
        ("12:27:11", "gpt-4o"),
        ("12:27:14", "gpt-4o"),
    ]
    assert [call.response.finish_reason for call in calls] == [None, "stop", "stop", None, "interrupted"]
    assert [call.complete for call in calls] == [True, True, True, True, False]


def test_an_image_remains_a_part_of_its_message() -> None:
    run = next(loaded(_EXPORT))
    asked = run.llm_interactions[0].input_messages[1].content
    assert isinstance(asked, list)
    assert [part.get("content_type") or part["text"] for part in asked if isinstance(part, dict)] == [
        "image_asset_pointer",
        "How many lines has the plot?",
    ]


@pytest.mark.parametrize(
    ("parent", "children", "gaps"),
    [
        ("t3", ["a7", "u1"], [("node u1", "it is in the tree twice")]),
        ("t3", ["nowhere"], [("node nowhere", "it is not in the file"), ("1 nodes", "no path leads to them")]),
    ],
)
def test_a_damaged_tree_has_gaps(parent: str, children: list[str], gaps: list[tuple[str, str]], tmp_path: Path) -> None:
    conversations: list[dict[str, Any]] = json.loads(_EXPORT.read_text(encoding="utf-8"))
    conversations[0]["mapping"][parent]["children"] = children
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(conversations))
    run = next(loaded(path))
    assert [(gap.what, gap.why) for gap in run.gaps] == gaps
