"""Sessions of Copilot CLI, Cursor, Droid, Grok CLI, Hermes, iFlow, Kimi Code and Qwen Code, in files that we wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import PRODUCED, check_run, facts_in, loaded, produced_lines, runs_of
from trace_recorder import load
from trace_recorder.facts import GapFact, SourceRecordFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.trajectory import Trajectory

_SESSIONS: dict[str, list[Any]] = {
    name: produced_lines(f"{name}/session.jsonl")
    for name in ("copilot", "cursor", "droid", "grok", "hermes", "iflow", "kimi", "qwen")
}
_COPILOT, _CURSOR, _DROID, _GROK, _HERMES, _IFLOW, _KIMI, _ = _SESSIONS.values()

_Line = dict[str, Any]


def _text(text: str) -> _Line:
    return {"type": "text", "text": text}


def _qwen_line(uuid: str, parent: str | None, kind: str, *parts: _Line, **more: Any) -> _Line:
    role = "model" if kind == "assistant" else "user"
    message = {"message": {"role": role, "parts": list(parts)}} if parts else {}
    about = {"uuid": uuid, "parentUuid": parent, "sessionId": "q-1", "timestamp": "2026-08-17T13:00:00.000Z"}
    return {**about, "type": kind, "version": "0.21", **message, **more}


def _kimi_prompt(text: str) -> _Line:
    message = {"role": "user", "content": [_text(text)], "toolCalls": [], "origin": {"kind": "user"}}
    return {"type": "context.append_message", "message": message, "time": 1785612800000}


def _kimi_request(time: int, kind: str = "loop") -> _Line:
    about = {"provider": "kimi", "model": "kimi-x", "maxTokens": 9}
    return {"type": "llm.request", "kind": kind, **about, "time": 1785612800000 + time}


_KIMI_USAGE = {"inputOther": 10, "output": 5, "inputCacheRead": 30, "inputCacheCreation": 0}


def _copilot_line(kind: str, second: int, **data: Any) -> _Line:
    return {"type": kind, "data": data, "id": f"e{second}", "timestamp": f"2025-12-18T21:32:{second:02}.000Z"}


_FAILURE_IS_STATED = {"copilot", "cursor", "droid", "iflow", "kimi"}


def _written(directory: Path, lines: list[Any]) -> Path:
    path = directory / "session.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def _seen(run: Trajectory, at: int) -> list[Any]:
    return [message.content for message in run.llm_interactions[at].input_messages]


@pytest.mark.parametrize("name", _SESSIONS)
def test_a_session_has_the_contents_of_its_file(tmp_path: Path, name: str) -> None:
    path = _written(tmp_path, _SESSIONS[name])
    assert format_of(Source(path)) == name
    (run,) = runs_of(path)
    (tmp_path / "journals").mkdir()
    read = check_run(run, tmp_path / "journals")
    assert read.task == "Fix it."
    first, second = read.llm_interactions
    assert (first.response.content, second.response.content) == ("I look.", "Done.")
    calls = [(call.name, call.arguments) for call in first.response.tool_calls]
    assert calls == [("shell", {"command": "ls"})] * (2 if name == "iflow" else 1)
    seen = _seen(read, 1)
    assert seen[-1] == "no such file"
    assert "Fix it." in seen
    assert "I look." in seen
    result = read.agent_steps[0].tool_results[-1]
    assert result.success is (False if name in _FAILURE_IS_STATED else None)
    if name != "iflow":
        assert first.response.reasoning == "Look first."


def test_droid_marks_messages_that_the_program_wrote(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _DROID))
    assert run.llm_interactions[0].input_messages[0].extra == {"visibility": "llm_only"}
    assert run.llm_interactions[0].response.id == "m-1"


def test_cursor_states_its_tools_and_how_the_turn_ended(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _CURSOR))
    assert (run.status, run.model) == ("completed", "claude-x")
    assert [tool.name for tool in run.llm_interactions[0].tools] == ["shell"]


def test_overlapping_lines_of_iflow_are_one_answer_without_counts(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _IFLOW))
    assert [call.call_id for call in run.llm_interactions[0].response.tool_calls] == ["c1", "c2"]
    assert not run.llm_interactions[0].response.usage.is_known
    assert _seen(run, 1) == ["Fix it.", "I look.", "a.py", "no such file"]


def test_qwen_goes_back_and_compresses_its_history(tmp_path: Path) -> None:
    compressed = {"compressedHistory": [{"role": "user", "parts": [{"text": "The summary."}]}]}
    lines = [
        _qwen_line("u", None, "user", {"text": "One."}),
        _qwen_line("a", "u", "assistant", {"text": "1"}),
        _qwen_line("s", "u", "system", subtype="rewind"),
        _qwen_line("v", "s", "user", {"text": "Two."}),
        _qwen_line("b", "v", "assistant", {"text": "2"}),
        _qwen_line("k", "b", "system", subtype="chat_compression", systemPayload=compressed),
        _qwen_line("w", "k", "user", {"text": "Three."}),
        _qwen_line("c", "w", "assistant", {"text": "3"}),
    ]
    run = load(_written(tmp_path, lines))
    assert [_seen(run, at) for at in range(3)] == [["One."], ["One.", "Two."], ["The summary.", "Three."]]


def test_reasoning_without_an_answer_is_a_call_that_ended_early(tmp_path: Path) -> None:
    run = load(_written(tmp_path, [*_GROK, {**_GROK[3]}]))
    last = run.llm_interactions[-1]
    assert (last.complete, last.response.reasoning) == (False, "Look first.")


def test_hermes_states_tokens_of_the_session_and_withdrawn_messages(tmp_path: Path) -> None:
    path = _written(tmp_path, [*_HERMES, {**_HERMES[0], "id": "h-2"}])
    first, second = runs_of(path)
    assert (first.identity, second.identity) == ("h-1", "h-2")
    assert [event.value["content"] for event in facts_in(first, SourceRecordFact)] == ["Retracted."]
    (read,) = loaded(_written(tmp_path, _HERMES))
    assert read.annotations["session_usage"] == {"input_tokens": 70, "api_call_count": 3}
    assert _seen(read, 0) == ["You are Hermes.", "Fix it."]


def test_kimi_states_durations_and_tokens(tmp_path: Path) -> None:
    first = load(_written(tmp_path, _KIMI)).llm_interactions[0]
    assert (first.duration_seconds, first.time_to_first_token_seconds) == (0.75, 0.5)
    usage = first.response.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (10, 30, 5)
    assert (first.provider, first.parameters, [tool.name for tool in first.tools]) == (
        "kimi",
        {"maxTokens": 9},
        ["shell"],
    )


def test_a_request_of_kimi_without_an_answer_is_incomplete(tmp_path: Path) -> None:
    run = load(_written(tmp_path, [*_KIMI[:6], _kimi_prompt("Again."), *_KIMI[11:]]))
    assert [(call.complete, call.response.content) for call in run.llm_interactions] == [(False, None), (True, "Done.")]
    assert _seen(run, 1) == ["You are Kimi.", "Fix it.", "Again."]


def test_a_compaction_of_kimi_keeps_the_newest_prompts(tmp_path: Path) -> None:
    compaction = {"summary": "S.", "contextSummary": "So far: S.", "keptUserMessageCount": 1, "time": 1785612800009}
    lines = [
        *_KIMI,
        _kimi_request(9, "compaction"),
        {"type": "usage.record", "usage": _KIMI_USAGE, "time": 1785612800009},
        {"type": "context.apply_compaction", **compaction},
        *_KIMI[11:],
    ]
    run = load(_written(tmp_path, lines))
    summary, after = run.llm_interactions[2:]
    assert (summary.agent, summary.response.content, summary.response.usage.output_tokens) == ("compaction", "S.", 5)
    assert [message.content for message in after.input_messages] == ["You are Kimi.", "Fix it.", "So far: S."]
    (missing,) = runs_of(_written(tmp_path, [*_KIMI, {"type": "context.apply_compaction", "keptUserMessageCount": 7}]))
    assert [event.what for event in facts_in(missing, GapFact)] == ["prompts that a compaction kept"]


def test_copilot_states_executions_with_their_times(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _COPILOT))
    result = run.agent_steps[0].tool_results[0]
    assert (result.success, result.error) == (False, "no such file")
    assert run.annotations["tokenDetails"] == {"input": {"tokenCount": 100}}
    assert [call.response.usage.output_tokens for call in run.llm_interactions] == [12, 3]


def test_a_sub_agent_of_copilot_is_linked_to_the_call_that_started_it(tmp_path: Path) -> None:
    task = {"toolCallId": "t1", "name": "task", "arguments": {"prompt": "Search."}}
    lines = [
        *_COPILOT[:2],
        _copilot_line("assistant.message", 3, content="", toolRequests=[task]),
        _copilot_line("tool.execution_start", 4, toolCallId="t1", toolName="task", arguments={"prompt": "Search."}),
        _copilot_line("subagent.started", 4, toolCallId="t1", agentName="explore"),
        _copilot_line("assistant.message", 5, parentToolCallId="t1", content="Found.", toolRequests=[]),
        _copilot_line("tool.execution_complete", 6, toolCallId="t1", success=True, result={"content": "Found."}),
        *_COPILOT[5:],
        _copilot_line("session.error", 9, errorType="query", message="bad", statusCode=400),
        _copilot_line("abort", 9, reason="user"),
    ]
    run = load(_written(tmp_path, lines))
    asked, inner, last, failed = run.llm_interactions
    assert (inner.agent, inner.agent_id) == ("explore", "t1")
    assert [message.content for message in inner.input_messages] == ["Search."]
    assert run.agent_steps[0].tool_results[0].execution_id == inner.parent_execution_id
    assert asked.agent_id is None
    assert _seen(run, 2) == ["Fix it.", "", "Found."]
    assert failed.error is not None
    assert (failed.error.status, run.status, last.response.content) == (400, "interrupted", "Done.")


def test_a_failed_call_of_kimi_has_the_error_that_follows_its_step(tmp_path: Path) -> None:
    """A step that ends with an error and has content is an incomplete call."""

    def event(time: int, kind: str, **members: Any) -> _Line:
        return {"type": "context.append_loop_event", "event": {"type": kind, **members}, "time": 1785612800000 + time}

    error = {"errorName": "RateLimit", "errorMessage": "slow down", "statusCode": 429}
    lines = [
        _KIMI[0],
        {"type": "profile.bind", "modelAlias": "loc", "systemPrompt": "You are Kimi.", "time": 1785612800000},
        _kimi_prompt("Fix it."),
        {**_kimi_request(1), "modelAlias": "loc"},
        event(2, "step.end", finishReason="error"),
        {"type": "turn.step.retrying", **error, "time": 1785612800003},
        _kimi_request(4),
        event(5, "content.part", part=_text("Do")),
        event(6, "step.end", finishReason="error"),
        {"type": "turn.ended", "reason": "completed", "time": 1785612800007},
    ]
    run = load(_written(tmp_path, lines))
    first, second = run.llm_interactions
    assert first.error is not None
    assert (first.error.type, first.error.message, first.error.status) == ("RateLimit", "slow down", 429)
    assert (second.response.content, second.complete, second.ended_by) == ("Do", False, "error")
    assert (run.model, run.status, _seen(run, 0)) == ("kimi-x", "completed", ["You are Kimi.", "Fix it."])


def test_the_settings_of_droid_have_the_model_and_the_tokens_of_the_session(tmp_path: Path) -> None:
    usage = {"inputTokens": 9, "outputTokens": 3}
    path = _written(tmp_path, _DROID)
    path.with_suffix(".settings.json").write_text(json.dumps({"model": "m", "tokenUsage": usage}))
    run = load(path)
    assert (run.model, run.annotations["session_usage"]) == ("m", usage)
    assert {call.model for call in run.llm_interactions} == {"m"}
    path.with_suffix(".settings.json").write_text("{")
    assert load(path).model is None


def test_arguments_of_antigravity_are_json_unless_one_of_them_is_not(tmp_path: Path) -> None:
    """A result answers the next open call. A step that failed is a failed result."""
    lines = produced_lines("antigravity/transcript.jsonl")
    lines[2]["tool_calls"][1]["args"] = {"AbsolutePath": '"/w/a.py"', "Lines": "[1, 2]"}
    run = load(_written(tmp_path, lines))
    first, second = run.llm_interactions
    arguments = [call.arguments for call in first.response.tool_calls]
    assert arguments == [{"CommandLine": "ls", "Wait": 5}, {"AbsolutePath": "/w/a.py", "Lines": [1, 2]}]
    lines[2]["tool_calls"][1]["args"] = {"AbsolutePath": "/w/a.py", "Lines": "[1, 2]"}
    arguments = [call.arguments for call in load(_written(tmp_path, lines)).llm_interactions[0].response.tool_calls]
    assert arguments[1] == {"AbsolutePath": "/w/a.py", "Lines": "[1, 2]"}
    results = [message for message in second.input_messages if message.role == "tool"]
    assert [(result.call_id, result.extra.get("is_error")) for result in results] == [
        ("call_0", True),
        ("call_1", None),
    ]


def test_the_shorter_transcript_of_antigravity_is_not_a_run_beside_the_full_one(tmp_path: Path) -> None:
    lines = produced_lines("antigravity/transcript.jsonl")
    logs = tmp_path / "brain" / "conversation-1" / ".system_generated" / "logs"
    logs.mkdir(parents=True)
    short, full = _written(logs, lines).rename(logs / "transcript.jsonl"), logs / "transcript_full.jsonl"
    assert format_of(Source(short)) == "antigravity"
    full.write_text(short.read_text())
    assert (format_of(Source(short)), format_of(Source(full))) == (None, "antigravity")
    assert [run.identity for run in runs_of(full)] == ["conversation-1"]


def test_a_transcript_of_cursor_names_the_session_of_its_parent(tmp_path: Path) -> None:
    directory = tmp_path / "session-1" / "subagents"
    directory.mkdir(parents=True)
    (run,) = runs_of(_written(directory, produced_lines("cursor/transcript.jsonl")))
    assert (run.identity, run.parent, run.task, run.status) == ("session", "session-1", "Fix it.", "completed")


def test_tool_calls_of_gptme_are_lines_of_the_text(tmp_path: Path) -> None:
    """What is no call stays a part of the text, as code blocks do."""
    lines = produced_lines("gptme/conversation.jsonl")
    rest = '@shell(c2): {"command": \n@no(c3): {oops\n```shell\nls\n```'
    lines[3]["content"] = 'Two.\n@shell(c1): {"command": "ls"}\n' + rest
    first, _ = load(_written(tmp_path, lines)).llm_interactions
    assert [(call.call_id, call.arguments) for call in first.response.tool_calls] == [("c1", {"command": "ls"})]
    assert first.response.content == "Two.\n\n" + rest
    assert (first.time_to_first_token_seconds, first.duration_seconds) == (0.1, pytest.approx(0.15))


def test_the_files_beside_a_session_of_grok_build_have_its_facts_and_its_tools(tmp_path: Path) -> None:
    """The session has no fingerprints of models. Its provider is unknown."""
    path = _written(tmp_path, produced_lines("grok/build.jsonl"))
    usage, tools = {"inputTokens": 9, "outputTokens": 3}, [{"type": "function", "function": {"name": "bash"}}]
    (tmp_path / "usage.json").write_text(json.dumps({"session": usage}))
    (tmp_path / "summary.json").write_text(json.dumps({"created_at": "2026-11-30T10:00:00Z", "info": {"cwd": "/w"}}))
    (tmp_path / "tool_definitions.json").write_text(json.dumps(tools))
    run = load(path)
    first, second = run.llm_interactions
    assert (run.task, run.provider, run.annotations["session_usage"]) == ("Fix it.", None, usage)
    assert [tool.raw for tool in first.tools] == [tool.raw for tool in second.tools] == tools
    assert run.start_time == "2026-11-30T10:00:00.000000+00:00"


def test_hermes_writes_lines_documents_and_a_database(tmp_path: Path) -> None:
    [session] = _HERMES
    path = tmp_path / "export.json"
    counts = [len(run.llm_interactions) for run in loaded(_written(tmp_path, _HERMES))]
    for document in (session, [session, session]):
        path.write_text(json.dumps(document, indent=1))
        assert format_of(Source(path)) == "hermes"
        assert {len(run.llm_interactions) for run in loaded(path)} == {*counts}
    (run,) = loaded(PRODUCED / "hermes" / "state.db")
    first, second = run.llm_interactions
    assert [call.arguments for call in first.response.tool_calls] == [{"command": "ls"}]
    assert [message.content for message in second.input_messages] == [
        *("You are Hermes.", "Fix it.", "I look.", "no such file"),
    ]


def test_a_journal_of_vibe_is_read_with_its_other_segments(tmp_path: Path) -> None:
    """Requests state what is new since the revision before. Without this revision, the messages are unknown."""
    lines = produced_lines("vibe/0000000000000001.jsonl")
    journal = tmp_path / "session-1" / "journal"
    journal.mkdir(parents=True)
    meta = {"config": {"model_name": "m"}, "parent_session_id": "p", "end_time": "2026-11-30T22:00:00Z"}
    (tmp_path / "session-1" / "meta.json").write_text(json.dumps(meta))
    first, last = journal / "0000000000000001.jsonl", journal / "0000000000000008.jsonl"
    first.write_text("".join(json.dumps(line) + "\n" for line in lines[:7]))
    last.write_text("".join(json.dumps(line) + "\n" for line in lines[7:]))
    for path in (first, last):
        (run,) = loaded(path)
        assert (run.trajectory_id, run.model, len(run.gaps)) == ("session-1", "m", 0)
        assert _seen(run, 1) == ["You are Vibe.", "Fix it.", "I look.", "a.py"]
        assert [tool.name for tool in run.llm_interactions[1].tools] == ["bash"]
    first.unlink()
    (run,) = loaded(last)
    [call] = run.llm_interactions
    assert (call.response.content, [*call.input_messages]) == ("Fixed.", [])
    assert [gap.what for gap in run.gaps] == ["the messages of later calls"]
