"""goose's sessions and Amp's threads, which we know only from descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.formats.files import PRODUCED, results_in, said_in
from trace_recorder import load
from trace_recorder.values.token_counts import counts_of

ASKED = [
    ("developer__shell", {"command": "echo sunny"}),
    ("developer__text_editor", {"command": "view", "path": "nothing.txt"}),
]


@pytest.mark.parametrize("name", ["sessions.db", "export.json", "20250513_082528.jsonl"])
def test_a_session_of_goose_is_the_same_run_in_each_form(name: str) -> None:
    run = load(PRODUCED / "goose" / name)
    said = [{key: one.get(key) for key in ("saw", "text", "asked")} for one in said_in(run)][:2]
    assert said == [
        {"saw": 1, "text": "Let me look.", "asked": ASKED},
        {"saw": 4, "text": "It is sunny.", "asked": None},
    ]
    assert [result[1:] for result in results_in(run)] == [
        ("developer__shell", True, "sunny\n"),
        ("developer__text_editor", False, "no such file"),
    ]
    assert run.task == "Weather in Tokyo?"
    assert run.annotations["session_usage"]["accumulated_output_tokens"] > 0


def test_the_database_of_goose_states_usage_and_compactions() -> None:
    """After a compaction the model sees the summary, and not the hidden messages."""
    calls = load(PRODUCED / "goose" / "sessions.db").llm_interactions
    usages = [call.response.usage for call in calls]
    assert [(one.input_tokens, one.output_tokens, one.cost) for one in usages] == [
        *((101, 11, 0.101), (102, 12, pytest.approx(0.102)), (103, 13, pytest.approx(0.103)))
    ]
    assert [message.content for message in calls[2].input_messages] == [
        *("The user asked for the weather; it is sunny.", "And in Paris?")
    ]


def test_a_thread_of_amp_has_the_usage_of_each_answer() -> None:
    [path] = (PRODUCED / "amp").iterdir()
    run = load(path)
    first, last = run.llm_interactions
    assert (first.response.reasoning, first.response.content, last.response.content) == (
        *("I look.", "Let me look.", "It is sunny."),
    )
    counted = [counts_of(call) for call in (first, last)]
    assert [(one.prompt, one.completion) for one in counted if one] == [(709, 30), (751, 6)]
    assert [call.timestamp for call in (first, last)] == [
        *("2026-11-25T10:25:18.000000+00:00", "2026-11-25T10:25:20.000000+00:00")
    ]
    assert results_in(run) == [
        ("toolu_1", "Bash", True, '{"output":"sunny\\n","exitCode":0}'),
        ("toolu_2", "Read", False, '{"message":"no such file"}'),
    ]


def test_a_stopped_answer_of_amp_is_incomplete(tmp_path: Path) -> None:
    said = {"role": "assistant", "messageId": 1, "content": [{"type": "text", "text": "Let"}]}
    thread = {"v": 1, "id": "T-1", "messages": [{**said, "state": {"type": "cancelled"}}]}
    (tmp_path / "T-1.json").write_text(json.dumps(thread))
    [call] = load(tmp_path / "T-1.json").llm_interactions
    assert (call.complete, call.ended_by) == (False, "its state is cancelled")


def test_a_state_of_amp_that_is_not_a_text_hides_no_answer(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "state": {"type": ["cancelled"]}}
    (tmp_path / "T-1.json").write_text(json.dumps({"v": 1, "id": "T-1", "messages": [answer]}))
    [call] = load(tmp_path / "T-1.json").llm_interactions
    assert (call.response.content, call.complete) == ("a", True)
