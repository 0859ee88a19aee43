"""Continue's sessions: a session that its command line wrote, and a session in the form of its editors."""

from __future__ import annotations

from tests.formats.files import PRODUCED, results_in, said_in
from trace_recorder import load

_PRODUCED = PRODUCED / "continue" / "6f2454aa-d271-43f3-95fc-0a0a4d6b05da.json"
"""Written by Continue's command line 1.5 with a scripted provider."""
_OF_AN_EDITOR = PRODUCED / "continue" / "0c0ffee0-1111-4222-8333-444455556666.json"
_GREET = "/home/dev/project/greet.py"


def _usage(sent: int, answered: int) -> dict[str, object]:
    return {
        "input_tokens": sent,
        "output_tokens": answered,
        "cost": 0.0,
        "extra": {"total_tokens": sent + answered},
    }


def test_each_answer_is_a_call_with_its_tokens_and_results() -> None:
    run = load(_PRODUCED)
    asked = [("Read", {"filepath": _GREET}), ("List", {"dirpath": "/home/dev/nowhere"})]
    assert said_in(run) == [
        {"saw": 1, "text": "I look at the file first.", "asked": asked, "usage": _usage(2100, 41)},
        {"saw": 4, "text": "It prints hello.", "usage": _usage(2300, 9)},
        {"saw": 6, "text": "Yes.", "usage": _usage(2400, 3)},
    ]
    assert results_in(run) == [
        ("call_1", "Read", True, f'Content of {_GREET}:\ndef greet():\n    print("hello")\n'),
        ("call_2", "List", False, "Directory does not exist: /home/dev/nowhere"),
    ]
    assert {call.model for call in run.llm_interactions} == {"scripted-1"}
    assert run.annotations["session_usage"]["promptTokens"] == 6800
    assert run.task == "What does greet.py print?"


def test_an_editor_s_session_has_thoughts_images_context_and_result_messages() -> None:
    run = load(_OF_AN_EDITOR)
    assert said_in(run) == [
        {"saw": 2, "text": "I search.", "asked": [("grep_search", {"query": "color"})]},
        {
            "saw": 4,
            "text": "Red.",
            "usage": {"input_tokens": 120, "output_tokens": 2, "cache_read_input_tokens": 100},
        },
    ]
    assert [call.response.reasoning for call in run.llm_interactions] == ["Search the styles.", "One match."]
    assert results_in(run) == [("t1", "grep_search", None, "a.css:1: color: red")]
    asked = run.llm_interactions[0].input_messages[1]
    assert isinstance(asked.content, list)
    assert asked.content[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert asked.extra["contextItems"][0]["name"] == "a.css"
    assert run.model == "Claude Sonnet 4.5"
