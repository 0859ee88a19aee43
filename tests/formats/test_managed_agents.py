"""Sessions of Anthropic's managed agents: in our own files, and in files of LangSmith's SDK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.files import check_run, facts_in, produced_lines, real_files, runs_of
from trace_recorder.facts import GapFact, SourceRecordFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Trajectory

_EVENTS = [event for name, event in produced_lines("managed-agents/session.jsonl")[2:]]

_Event = dict[str, Any]
_SESSION = produced_lines("managed-agents/session.jsonl")[0][1]


def _event(kind: str, second: int, **members: Any) -> _Event:
    return {"id": f"e{second}", "type": kind, "processed_at": f"2026-07-06T16:00:{second:02}Z", **members}


def _end(second: int, output: int, **members: Any) -> _Event:
    usage = {"input_tokens": 2, "output_tokens": output, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 1}
    return _event("span.model_request_end", second, model_usage=usage, **{"is_error": False, **members})


def _file(path: Path, events: list[_Event], *, bare: bool = False) -> Path:
    called = [["client.beta.sessions.create", _SESSION]]
    sent = [["client.beta.sessions.events.send", ["sesn_1", {"events": [{"type": "user.message", "content": "?"}]}]]]
    streamed = [["client.beta.sessions.events.stream", event] for event in events]
    path.write_text("\n".join(map(json.dumps, events if bare else [*called, *sent, *streamed])))
    return path


def _read(tmp_path: Path, events: list[_Event], *, bare: bool = False) -> Trajectory:
    (tmp_path / "runs").mkdir(exist_ok=True)
    (run,) = runs_of(_file(tmp_path / "session.jsonl", events, bare=bare))
    return check_run(run, tmp_path / "runs")


def test_a_session_is_read_from_its_events(tmp_path: Path) -> None:
    run = _read(tmp_path, _EVENTS)
    assert format_of(Source(tmp_path / "session.jsonl")) == "managed-agents"
    assert (run.trajectory_id, run.task, run.status, run.model) == ("sesn_1", "Weather?", "completed", "claude-x")
    first, second, third = run.llm_interactions
    assert [message.content for message in first.input_messages] == ["Be brief.", "Weather?"]
    assert first.timestamp.startswith("2026-07-06T16:00:03")
    assert (first.duration_seconds, first.response.content) == (4.0, "I look.")
    assert [(call.call_id, call.name) for call in first.response.tool_calls] == [("e5", "weather"), ("e6", "bash")]
    assert counts_of(first) == Counts(prompt=10, completion=10, cache_read=7, cache_write=1)
    assert [message.role for message in second.input_messages] == ["system", "user", "assistant", "tool", "tool"]
    assert (third.response.content, third.input_messages[-1].content) == ("18 degrees.", "18")
    results = {one.call_id: (one.success, one.error) for step in run.agent_steps for one in step.tool_results}
    assert results["e5"] == (False, "not allowed")
    assert results["e6"] == (True, None)
    assert set(results) == {"e5", "e6", "e12"}


def test_events_without_envelopes_are_read(tmp_path: Path) -> None:
    run = _read(tmp_path, _EVENTS, bare=True)
    assert (run.trajectory_id, len(run.llm_interactions), run.status) == ("session", 3, "completed")
    assert [message.content for message in run.llm_interactions[0].input_messages] == ["Weather?"]


def test_the_end_of_a_session_is_stated(tmp_path: Path) -> None:
    began, idle = _EVENTS[:2], _event("session.status_idle", 30, stop_reason={"type": "end_turn"})
    error = _event("session.error", 20, error={"type": "billing_error", "message": "no credit"})
    assert _read(tmp_path, began).status == "unknown"
    assert _read(tmp_path, [*began, _event("user.interrupt", 20), idle]).status == "interrupted"
    failed = _read(tmp_path, [*began, error, _event("session.status_terminated", 21)])
    assert (failed.status, failed.error and failed.error.message) == ("failed", "no credit")
    assert _read(tmp_path, [*began, error, idle]).error is None


def test_a_failed_request_and_a_request_without_an_end_are_calls(tmp_path: Path) -> None:
    run = _read(tmp_path, [*_EVENTS[:3], _end(4, 0, is_error=True), *_EVENTS[2:5]])
    failed, cut = run.llm_interactions
    assert (failed.error and failed.error.type, failed.response.content) == ("model_request", None)
    assert (cut.complete, cut.response.content, cut.error) == (False, "I look.", None)


def test_a_compacted_context_begins_a_new_conversation(tmp_path: Path) -> None:
    after = [_event("agent.thread_context_compacted", 20), *_EVENTS[15:18]]
    run = _read(tmp_path, [*_EVENTS, *after])
    assert [len(call.input_messages) for call in run.llm_interactions][-1] == 0


def test_unknown_events_are_kept(tmp_path: Path) -> None:
    path = _file(tmp_path / "session.jsonl", _EVENTS)
    path.write_text(path.read_text() + '\n{"cut": ')
    (run,) = runs_of(path)
    kept = [event.what for event in facts_in(run, SourceRecordFact)]
    assert kept == [
        *("session", "sent events", "session.status_running", "agent.thinking"),
        *("session.status_idle", "session.status_idle"),
    ]
    assert [event.what for event in facts_in(run, GapFact)] == ["line 22"]


def test_real_sessions_equal_their_raw_events(tmp_path: Path) -> None:
    """Calls, tools, results and tokens equal those of the raw events."""
    for path in real_files("langsmith/sdk-tests/anthropic_managed*"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        events = [value for method, value in lines if method.endswith(".stream")]
        ends = [event for event in events if event["type"] == "span.model_request_end"]
        (described,) = runs_of(path)
        run = check_run(described, tmp_path)
        assert len(run.llm_interactions) == len(ends)
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            counts = [getattr(call.response.usage, name) for call in run.llm_interactions]
            assert counts == [end["model_usage"][name] for end in ends]
        answers = [
            "".join(part["text"] for part in event["content"]) for event in events if event["type"] == "agent.message"
        ]
        assert [call.response.content for call in run.llm_interactions if call.response.content] == answers
        used = [event for event in events if event["type"] in ("agent.tool_use", "agent.mcp_tool_use")]
        called = [call for one in run.llm_interactions for call in one.response.tool_calls]
        assert [(call.call_id, call.name, call.arguments) for call in called] == [
            (one["id"], one["name"], one["input"]) for one in used
        ]
        expected = {
            event.get("tool_use_id", event.get("mcp_tool_use_id")): event["is_error"]
            for event in events
            if event["type"] in ("agent.tool_result", "agent.mcp_tool_result")
        }
        results = {one.call_id: one.success is False for step in run.agent_steps for one in step.tool_results}
        assert results == expected
        assert run.status == "completed"
