"""Gemini CLI's sessions: the document, the lines with patches, and recorded answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_run, facts_in, produced_document, real_files, runs_of
from trace_recorder import load
from trace_recorder.facts import SourceRecordFact
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.values.token_counts import counts_of

_Members = dict[str, Any]
_MESSAGES = produced_document("gemini-cli/session.json")["messages"]
_ABOUT = {
    "sessionId": "g-1",
    "projectHash": "0a",
    "startTime": "2026-01-01T10:00:00.000Z",
    "lastUpdated": "2026-01-01T10:01:00.000Z",
}


def _call(identity: str, output: _Members | None, status: str = "success") -> _Members:
    answer = {"functionResponse": {"id": identity, "name": "shell", "response": output}}
    said = {"result": None if output is None else [answer], "status": status, "resultDisplay": "shown"}
    return {"id": identity, "name": "shell", "args": {"command": "ls"}, "timestamp": "2026-01-01T10:00:09.000Z", **said}


def _said(identity: str, content: str, *calls: _Members) -> _Members:
    tokens = {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 0, "total": 115}
    thoughts = [{"subject": "Plan", "description": "I look first."}]
    about = {"id": identity, "timestamp": "2026-01-01T10:00:05.000Z", "type": "gemini", "model": "gemini-x"}
    return {**about, "content": content, "thoughts": thoughts, "tokens": tokens, "toolCalls": list(calls)}


def _user(identity: str, content: Any) -> _Members:
    return {"id": identity, "timestamp": "2026-01-01T10:00:01.000Z", "type": "user", "content": content}


def _document(directory: Path, messages: list[Any]) -> Path:
    path = directory / "session.json"
    path.write_text(json.dumps({**_ABOUT, "messages": messages}, indent=1))
    return path


def _lines(directory: Path, lines: list[Any]) -> Path:
    path = directory / "session.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.mark.parametrize("as_lines", [True, False])
def test_a_session_is_read_in_both_forms(tmp_path: Path, as_lines: bool) -> None:
    path = _lines(tmp_path, [_ABOUT, *_MESSAGES]) if as_lines else _document(tmp_path, _MESSAGES)
    run = load(path)
    assert (run.trajectory_id, run.task, run.model, run.execution_time) == ("g-1", "Fix it.", "gemini-x", 60.0)
    first, second = run.llm_interactions
    assert (first.response.content, first.response.reasoning) == ("I look.", "**Plan**\nI look first.")
    assert [(tool_call.call_id, tool_call.arguments) for tool_call in first.response.tool_calls] == [
        ("c1", {"command": "ls"}),
        ("c2", {"command": "ls"}),
    ]
    assert [message.content for message in second.input_messages] == ["Fix it.", "I look.", "a.py", "no such file"]
    assert [(result.result, result.error, result.success) for result in run.agent_steps[0].tool_results] == [
        ("a.py", None, True),
        (None, "no such file", False),
    ]


def test_thoughts_are_added_to_the_completion(tmp_path: Path) -> None:
    counted = counts_of(load(_document(tmp_path, _MESSAGES)).llm_interactions[0])
    assert counted is not None
    assert (counted.prompt, counted.completion, counted.cache_read, counted.reasoning) == (100, 15, 40, 5)


def test_later_lines_replace_messages_and_members(tmp_path: Path) -> None:
    lines = [
        _ABOUT,
        _user("u1", "One."),
        _said("a1", "", _call("c1", None, "executing")),
        _said("a1", "", _call("c1", {"output": "x"})),
        {"$set": {"lastUpdated": "2026-01-01T10:05:00.000Z"}},
        _said("a2", "Done."),
    ]
    run = load(_lines(tmp_path, lines))
    assert run.execution_time == 300.0
    assert [call.response.content for call in run.llm_interactions] == [None, "Done."]
    assert run.llm_interactions[1].input_messages[-1].content == "x"


def test_a_session_that_goes_back_continues_a_branch(tmp_path: Path) -> None:
    lines = [
        _ABOUT,
        _user("u1", "One."),
        _said("a1", "1"),
        _user("u2", "Two."),
        _said("a2", "2"),
        {"$rewindTo": "u2"},
        _user("u3", "Three."),
        _said("a3", "3"),
    ]
    run = load(_lines(tmp_path, lines))
    assert [message.content for message in run.llm_interactions[2].input_messages] == ["One.", "1", "Three."]


def test_the_terminal_s_lines_are_kept_and_a_last_result_is_an_execution(tmp_path: Path) -> None:
    (run,) = runs_of(_document(tmp_path, _MESSAGES[:3]))
    assert [event.what for event in facts_in(run, SourceRecordFact)] == ["resultDisplay"] * 2 + ["info"]
    assert [(event.call_id, event.error) for event in run.events if isinstance(event, ToolRun)] == [
        ("c1", None),
        ("c2", "no such file"),
    ]


def test_an_error_of_the_api_is_a_failed_call(tmp_path: Path) -> None:
    failed = {"id": "e", "type": "error", "content": "[API Error: 429]", "timestamp": "2026-01-01T10:00:02.000Z"}
    (one,) = load(_document(tmp_path, [_MESSAGES[0], failed])).llm_interactions
    assert one.error is not None
    assert one.error.message == "[API Error: 429]"


def test_recorded_answers_are_calls_without_a_history(tmp_path: Path) -> None:
    parts = [{"text": "The"}, {"text": " end."}]
    chunks = [
        {"candidates": [{"content": {"parts": [part], "role": "model"}}], "usageMetadata": {"promptTokenCount": 7}}
        for part in parts
    ]
    called = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}}]}
    lines = [
        {"method": "generateContentStream", "response": chunks},
        {"method": "generateContent", "response": called},
        {"method": "countTokens", "response": {"totalTokens": 3}},
    ]
    (run,) = runs_of(_lines(tmp_path, lines))
    one, two = load(_lines(tmp_path, lines)).llm_interactions
    assert (one.response.content, one.response.usage.input_tokens, list(one.input_messages)) == ("The end.", 7, [])
    assert [call.name for call in two.response.tool_calls] == ["f"]
    assert [event.what for event in facts_in(run, SourceRecordFact)] == ["countTokens"]


def _raw_messages(path: Path) -> list[_Members]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    found: list[_Members] = json.loads(path.read_text())["messages"]
    return found


def test_real_sessions_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("gemini-cli/ag*/*") + real_files("gemini-cli/ai-sessions/*"):
        answers = [message for message in _raw_messages(path) if message.get("type") == "gemini"]
        (run,) = runs_of(path)
        calls = check_run(run, tmp_path).llm_interactions
        assert [call.response.content or "" for call in calls] == [message["content"] for message in answers]
        asked = [call for message in answers for call in message.get("toolCalls", ())]
        assert [(call.call_id, call.arguments) for one in calls for call in one.response.tool_calls] == [
            (call["id"], call["args"]) for call in asked
        ]
        results = [
            result
            for step in check_run(run, tmp_path).agent_steps
            for result in step.tool_results
            if result.call_id in {call["id"] for call in asked}
        ]
        assert len(results) == sum(bool(call.get("result")) for call in asked)
        for ours, theirs in (("input_tokens", "input"), ("output_tokens", "output"), ("reasoning_tokens", "thoughts")):
            assert sum(getattr(call.response.usage, ours) or 0 for call in calls) == sum(
                message.get("tokens", {}).get(theirs, 0) for message in answers
            )


def test_real_recorded_answers_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("gemini-cli/gemini-cli/*"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        (run,) = runs_of(path)
        calls = check_run(run, tmp_path).llm_interactions
        assert len(calls) == len(lines)
        texts = [
            "".join(part.get("text", "") for chunk in line["response"] for part in _parts(chunk)) for line in lines
        ]
        assert [call.response.content or "" for call in calls] == texts


def _parts(chunk: _Members) -> list[_Members]:
    return [part for candidate in chunk["candidates"] for part in candidate["content"]["parts"]]


def test_the_context_of_a_session_is_a_message_and_results_are_read_once(tmp_path: Path) -> None:
    """Version 0.61 writes the context as the first message, and repeats the results as a message."""
    context = _user("u0", [{"text": "<session_context>\nToday is Monday.\n</session_context>"}])
    again = [{"functionResponse": {"id": identity, "response": {}}} for identity in ("c1", "c2")]
    other = _user("u3", [{"functionResponse": {"id": "c9", "response": {}}}])
    lines = [_ABOUT, {"$set": {"messages": [context]}}, *_MESSAGES[:2], _user("u2", again), other, _MESSAGES[3]]
    run = load(_lines(tmp_path, lines))
    assert [len(call.input_messages) for call in run.llm_interactions] == [2, 6]
    assert run.task == "Fix it."
