"""Claude Code's sessions: answers in parts, branches, sub-agents, compactions, failures, and exports in other forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import check_run, facts_in, loaded, produced_lines, runs_of
from trace_recorder import load
from trace_recorder.facts import SourceRecordFact
from trace_recorder.formats.foreign_runs.run import ToolRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import read_foreign_runs
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import Trajectory

_SESSION = produced_lines("claude-code/session.jsonl")

_Line = dict[str, Any]


def _line(kind: str, uuid: str, parent: str | None, message: _Line | None = None, **more: Any) -> _Line:
    about = {"uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "isSidechain": False, "version": "2.1.0"}
    said = {} if message is None else {"message": message}
    return {"type": kind, "timestamp": f"2026-03-01T10:00:{len(uuid):02}.000Z", **about, **said, **more}


def _user(uuid: str, parent: str | None, content: Any, **more: Any) -> _Line:
    return _line("user", uuid, parent, {"role": "user", "content": content}, **more)


def _said(uuid: str, parent: str | None, identity: str, *blocks: _Line, output: int = 5, **more: Any) -> _Line:
    usage = {
        "input_tokens": 3,
        "output_tokens": output,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 2,
    }
    message = {"id": identity, "type": "message", "role": "assistant", "model": "claude-x", "content": list(blocks)}
    return _line("assistant", uuid, parent, {**message, "stop_reason": None, "usage": usage}, **more)


def _text(text: str) -> _Line:
    return {"type": "text", "text": text}


def _use(identity: str, name: str = "Bash", **arguments: Any) -> _Line:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def _result(identity: str, content: Any, **more: Any) -> _Line:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


def _written(directory: Path, lines: list[Any], name: str = "s-1.jsonl") -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path


def _contents(run: Trajectory) -> list[list[Any]]:
    return [[message.content for message in call.input_messages] for call in run.llm_interactions]


def test_the_parts_of_an_answer_are_one_call_with_the_last_usage(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _SESSION))
    assert (run.trajectory_id, run.task, run.model, run.status) == ("s-1", "Fix it.", "claude-x", "unknown")
    first, second = run.llm_interactions
    assert (first.response.content, first.response.reasoning) == ("I look.", "Two at once.")
    assert [(call.call_id, call.arguments) for call in first.response.tool_calls] == [
        ("t1", {"command": "ls"}),
        ("t2", {"command": "false"}),
    ]
    assert (first.response.usage.output_tokens, second.response.usage.output_tokens) == (90, 7)
    assert [message.role for message in second.input_messages] == ["user", "assistant", "tool", "tool"]
    assert second.input_messages[1].reasoning == "Two at once."
    assert [(result.result, result.error, result.success) for result in run.agent_steps[0].tool_results] == [
        ("a.py", None, True),
        (None, "Exit code 1", False),
    ]


def test_cached_tokens_are_added_to_the_prompt(tmp_path: Path) -> None:
    first = load(_written(tmp_path, _SESSION)).llm_interactions[0]
    counted = counts_of(first)
    assert counted is not None
    assert (counted.prompt, counted.completion, counted.cache_read) == (45, 90, 40)


def test_lines_that_are_not_messages_are_kept_in_the_journal(tmp_path: Path) -> None:
    (run,) = runs_of(_written(tmp_path, _SESSION))
    kept = [(event.what, event.value) for event in facts_in(run, SourceRecordFact)]
    assert [what for what, _ in kept] == ["file-history-snapshot", "progress", "toolUseResult", "toolUseResult"]
    assert kept[2][1] == {"call_ids": ["t1"], "value": {"stdout": "a.py"}}


def test_an_edited_prompt_continues_a_branch(tmp_path: Path) -> None:
    lines = [
        _user("u", None, "One."),
        _said("a", "u", "m1", _text("1")),
        _user("uu", "a", "Two."),
        _said("aa", "uu", "m2", _text("2")),
        _user("uuu", "a", "Three."),
        _said("aaa", "uuu", "m3", _text("3")),
        _user("uuuu", None, "From the start."),
        _said("aaaa", "uuuu", "m4", _text("4")),
    ]
    assert _contents(load(_written(tmp_path, lines))) == [
        ["One."],
        ["One.", "1", "Two."],
        ["One.", "1", "Three."],
        ["From the start."],
    ]


def test_results_of_parallel_calls_are_not_a_branch(tmp_path: Path) -> None:
    lines = [
        _user("u", None, "Both."),
        _said("a", "u", "m1", _use("t1")),
        _said("ab", "a", "m1", _use("t2")),
        _user("r1", "a", [_result("t1", "one")]),
        _user("r2", "ab", [_result("t2", "two")]),
        _said("abc", "r1", "m2", _text("Done.")),
    ]
    assert _contents(load(_written(tmp_path, lines)))[1] == ["Both.", None, "one", "two"]


@pytest.mark.parametrize("boundary", [True, False])
def test_a_compaction_begins_a_new_conversation(tmp_path: Path, boundary: bool) -> None:
    lines = [
        _user("u", None, "One."),
        _said("a", "u", "m1", _use("t1", command="ls")),
        _user("r", "a", [_result("t1", "a.py")]),
        _line("system", "b", None, subtype="compact_boundary", logicalParentUuid="r", compactMetadata={"preTokens": 9}),
        _user("uu", "b", "The summary.", isCompactSummary=True),
        _said("aa", "uu", "m2", _text("2")),
    ]
    run = load(_written(tmp_path, lines if boundary else [*lines[:3], *lines[4:]]))
    assert _contents(run) == [["One."], ["The summary."]]
    assert run.llm_interactions[1].input_messages[0].extra == {"isCompactSummary": True}
    assert [result.result for result in run.agent_steps[0].tool_results] == ["a.py"]
    assert run.task == "One."


def test_clear_begins_a_new_conversation(tmp_path: Path) -> None:
    command = "<command-name>/clear</command-name>"
    lines = [
        _user("u", None, "One."),
        _said("a", "u", "m1", _text("1")),
        _user("uu", "a", command),
        _user("uuu", "uu", "Two."),
        _said("aa", "uuu", "m2", _text("2")),
    ]
    assert _contents(load(_written(tmp_path, lines))) == [["One."], [command, "Two."]]


def test_a_sub_agent_of_newer_versions_is_read_from_its_own_file(tmp_path: Path) -> None:
    lines = [
        _user("u", None, "Delegate."),
        _said("a", "u", "m1", _use("t1", "Task", subagent_type="explorer", prompt="Search.")),
        _user("r1", "a", [_result("t1", "Found.")], toolUseResult={"agentId": "x7", "content": "Found."}),
        _said("aabbcc", "r1", "m3", _text("Done.")),
    ]
    side = {"isSidechain": True, "agentId": "x7"}
    path = _written(tmp_path, lines)
    _written(
        tmp_path,
        [_user("v", None, "Search.", **side), _said("vw", "v", "m2", _text("Found."), **side)],
        "s-1/subagents/agent-x7.jsonl",
    )
    source = Source(path)
    (run,) = read_foreign_runs(source)
    assert {one.name for one in source.read_too} == {"agent-x7.jsonl"}
    read = check_run(run, tmp_path / "s-1")
    one, two, three = read.llm_interactions
    assert [(call.agent, call.agent_id) for call in (one, two, three)] == [
        (None, None),
        ("explorer", "x7"),
        (None, None),
    ]
    assert [message.content for message in two.input_messages] == ["Search."]
    result = read.agent_steps[0].tool_results[0]
    assert (result.result, result.execution_id) == ("Found.", two.parent_execution_id)
    assert two.parent_execution_id is not None
    assert [message.role for message in three.input_messages] == ["user", "assistant", "tool"]


def test_a_sub_agent_of_older_versions_is_found_by_its_prompt(tmp_path: Path) -> None:
    lines = [
        _user("u", None, "Delegate."),
        _said("a", "u", "m1", _use("t1", "Task", subagent_type="explorer", prompt="Search.")),
        _user("v", None, "Search.", isSidechain=True),
        _said("vw", "v", "m2", _text("Found."), isSidechain=True),
        _user("r", "a", [_result("t1", "Found.")]),
        _said("ab", "r", "m3", _text("Done.")),
    ]
    read = load(_written(tmp_path, lines))
    assert [call.agent for call in read.llm_interactions] == [None, "explorer", None]
    assert _contents(read) == [["Delegate."], ["Search."], ["Delegate.", None, "Found."]]
    assert read.llm_interactions[1].parent_execution_id == read.agent_steps[0].tool_results[0].execution_id


def test_a_progress_line_names_the_call_of_a_sub_agent(tmp_path: Path) -> None:
    """A stopped sub-agent has no result with its id, and its prompt may differ from that of the call."""
    lines = [
        _user("u", None, "Delegate."),
        _said("a", "u", "m1", _use("t1", "Task", subagent_type="explorer", prompt="Search.")),
        _line("progress", "p", "a", data={"type": "agent_progress", "agentId": "x7"}, parentToolUseID="t1"),
        _user("r1", "p", [_result("t1", "Stopped.")]),
    ]
    side = {"isSidechain": True, "agentId": "x7"}
    path = _written(tmp_path, lines)
    sub_agent = [_user("v", None, "Look.", **side), _said("vw", "v", "m2", _text("I look."), **side)]
    _written(tmp_path, sub_agent, "s-1/subagents/agent-x7.jsonl")

    read = load(path)

    result = read.agent_steps[0].tool_results[0]
    assert [(call.agent, call.agent_id, call.parent_execution_id) for call in read.llm_interactions] == [
        (None, None, None),
        ("explorer", "x7", result.execution_id),
    ]
    assert result.execution_id is not None


def test_failures_and_interruptions_are_stated(tmp_path: Path) -> None:
    overloaded = {"status": 529, "error": {"type": "error"}, "message": "Overloaded"}
    lines = [
        _user("u", None, "One."),
        _line("system", "e", "u", subtype="api_error", error=overloaded, retryAttempt=1),
        _said("a", "e", "m1", _use("t1", command="sleep 9")),
        _user("r", "a", [_result("t1", "The user doesn't want to proceed.", is_error=True)]),
        _said("f", "r", "m2", _text("API Error: 500"), isApiErrorMessage=True, error="server_error"),
        _user("uu", "f", [_text("[Request interrupted by user]")]),
    ]
    run = load(_written(tmp_path, lines))
    failed, _, again = run.llm_interactions
    assert failed.error is not None
    assert again.error is not None
    assert (failed.error.status, failed.error.message) == (529, "Overloaded")
    assert (again.error.type, again.error.message) == ("server_error", "API Error: 500")
    assert [message.content for message in again.input_messages][-1] == "The user doesn't want to proceed."
    assert run.status == "interrupted"
    assert run.metrics["failed_llm_calls"] == 2


def test_results_that_no_call_saw_are_executions(tmp_path: Path) -> None:
    lines = _SESSION[:-1]
    (run,) = runs_of(_written(tmp_path, lines))
    states = [
        (event.call_id, event.success, event.result, event.error) for event in run.events if isinstance(event, ToolRun)
    ]
    assert states == [("t1", True, "a.py", None), ("t2", False, None, "Exit code 1")]


def test_text_typed_during_an_answer_is_a_message(tmp_path: Path) -> None:
    lines = [
        _user("u", None, "One."),
        _said("a", "u", "m1", _use("t1")),
        _user("r", "a", [_result("t1", "x")]),
        _line("attachment", "q", "r", attachment={"type": "queued_command", "prompt": "Wait."}),
        _said("aa", "q", "m2", _text("Yes?")),
    ]
    assert _contents(load(_written(tmp_path, lines)))[1] == ["One.", None, "x", "Wait."]


def test_the_export_of_the_web_page_has_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"loglines": _SESSION}, indent=1))
    read = load(path)
    assert [call.response.content for call in read.llm_interactions] == ["I look.", "Done."]


@pytest.mark.parametrize("as_lines", [True, False])
def test_the_sdk_s_messages_state_how_the_run_ended(tmp_path: Path, as_lines: bool) -> None:
    session = {"session_id": "s-9", "parent_tool_use_id": None}
    within = {"session_id": "s-9", "parent_tool_use_id": "t1"}
    messages: list[_Line] = [
        {"type": "system", "subtype": "init", "tools": ["Task"], "model": "claude-x", **session},
        {"type": "user", "message": {"role": "user", "content": "Go."}, **session},
        {"type": "assistant", "message": _said("", None, "m1", _use("t1", "Task", prompt="P"))["message"], **session},
        {"type": "user", "message": {"role": "user", "content": "P"}, **within},
        {"type": "assistant", "message": _said("", None, "m2", _text("In."))["message"], **within},
        {"type": "user", "message": {"role": "user", "content": [_result("t1", "In.")]}, **session},
        {"type": "assistant", "message": _said("", None, "m3", _text("Out."))["message"], **session},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Out.", "total_cost_usd": 0.5, **session},
    ]
    exchanged = {"messages": [{"direction": "recv", "message": message} for message in messages]}
    run = load(_written(tmp_path, messages if as_lines else [exchanged]))
    assert (run.trajectory_id, run.status, run.final_result) == ("s-9", "completed", "Out.")
    assert run.annotations["total_cost_usd"] == 0.5
    assert _contents(run) == [["Go."], ["P"], ["Go.", None, "In."]]
    assert [call.agent_id for call in run.llm_interactions] == [None, "t1", None]
    assert [tool.name for tool in run.llm_interactions[0].tools] == ["Task"]


def test_sessions_that_go_back_often_are_read_up_to_a_limit(tmp_path: Path) -> None:
    lines = [_user("u", None, "One."), _said("a", "u", "m", _text("1"))]
    for at in range(600):
        lines += [_user(f"u{at}", "a", f"Try {at}."), _said(f"a{at}", f"u{at}", f"m{at}", _text("x"))]
    (run,) = loaded(_written(tmp_path, lines))
    assert len(run.llm_interactions) == 601
    assert [gap.what for gap in run.gaps] == ["the branches of a session that goes back"]
