"""Real sessions of rarer agents: calls, results and tokens equal those of their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.files import check_run, real_files, runs_of
from trace_recorder.values.trajectory import Trajectory


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def _only(path: Path, tmp_path: Path) -> Trajectory:
    (run,) = runs_of(path)
    return check_run(run, tmp_path)


def _asked(run: Trajectory) -> list[str]:
    return [call.call_id for one in run.llm_interactions for call in one.response.tool_calls]


def _answered(run: Trajectory) -> list[str]:
    return [result.call_id for step in run.agent_steps for result in step.tool_results]


def _blocks(message: dict[str, Any], kind: str, member: str) -> list[str]:
    content = message["content"] if isinstance(message["content"], list) else []
    return [block[member] for block in content if block["type"] == kind]


def test_real_sessions_of_droid_equal_their_lines(tmp_path: Path) -> None:
    for path in real_files("others/droid/*"):
        messages = [line["message"] for line in _lines(path) if line["type"] == "message"]
        run = _only(path, tmp_path)
        answers = [message for message in messages if message["role"] == "assistant"]
        assert len(run.llm_interactions) == len(answers)
        assert _asked(run) == [one for message in answers for one in _blocks(message, "tool_use", "id")]
        results = [one for message in messages for one in _blocks(message, "tool_result", "tool_use_id")]
        assert sorted(_answered(run)) == sorted(set(results) & set(_asked(run)))


def test_real_sessions_of_cursor_grok_and_hermes_equal_their_lines(tmp_path: Path) -> None:
    (path,) = real_files("others/cursor/*")
    run = _only(path, tmp_path)
    assert len(run.llm_interactions) == sum(line.get("role") == "assistant" for line in _lines(path))
    (path,) = real_files("others/grok/*")
    run, lines = _only(path, tmp_path), _lines(path)
    assert _asked(run) == [call["id"] for line in lines for call in line.get("tool_calls", ())]
    assert _answered(run) == [line["tool_call_id"] for line in lines if line["type"] == "tool_result"]
    (path,) = real_files("others/hermes/*")
    run, (session,) = _only(path, tmp_path), _lines(path)
    active = [message for message in session["messages"] if message["active"]]
    answers = [message for message in active if message["role"] == "assistant"]
    assert [call.response.content or "" for call in run.llm_interactions] == [
        answer["content"] or "" for answer in answers
    ]
    assert _asked(run) == [call["id"] for message in answers for call in message["tool_calls"] or ()]
    assert run.annotations["session_usage"]["input_tokens"] == session["input_tokens"]


def test_real_sessions_of_kimi_equal_their_lines(tmp_path: Path) -> None:
    for path in real_files("others/kimi/*"):
        lines = _lines(path)
        run = _only(path, tmp_path)
        assert len(run.llm_interactions) == sum(line["type"] == "llm.request" for line in lines)
        events = [line["event"] for line in lines if line["type"] == "context.append_loop_event"]
        assert _asked(run) == [event["toolCallId"] for event in events if event["type"] == "tool.call"]
        assert _answered(run) == [event["toolCallId"] for event in events if event["type"] == "tool.result"]
        usages = [line["usage"] for line in lines if line["type"] == "usage.record"]
        for ours, theirs in (("input_tokens", "inputOther"), ("output_tokens", "output")):
            total = sum(getattr(call.response.usage, ours) or 0 for call in run.llm_interactions)
            assert total == sum(usage[theirs] for usage in usages)


def test_real_sessions_of_copilot_equal_their_lines(tmp_path: Path) -> None:
    for path in real_files("others/copilot/*"):
        lines = _lines(path)
        run = _only(path, tmp_path)
        answers = [line["data"] for line in lines if line["type"] == "assistant.message"]
        calls = [call for call in run.llm_interactions if call.error is None]
        assert len(calls) == len(answers)
        assert sorted(_asked(run)) == sorted(one["toolCallId"] for data in answers for one in data["toolRequests"])
        assert sum(call.response.usage.output_tokens or 0 for call in calls) == sum(
            data.get("outputTokens", 0) for data in answers
        )


def test_real_sessions_of_iflow_and_qwen_equal_their_lines(tmp_path: Path) -> None:
    (path,) = real_files("others/iflow/*")
    run, lines = _only(path, tmp_path), _lines(path)
    assistant = [line["message"] for line in lines if line["type"] == "assistant"]
    assert set(_asked(run)) == {one for message in assistant for one in _blocks(message, "tool_use", "id")}
    user = [line["message"] for line in lines if line["type"] == "user"]
    assert sorted(_answered(run)) == sorted(
        one for message in user for one in _blocks(message, "tool_result", "tool_use_id")
    )
    (path,) = real_files("others/qwen/*")
    run, lines = _only(path, tmp_path), _lines(path)
    assert len(run.llm_interactions) == len({line["uuid"] for line in lines if line["type"] == "assistant"})
    assert sum(call.response.usage.output_tokens or 0 for call in run.llm_interactions) == sum(
        line.get("usageMetadata", {}).get("candidatesTokenCount", 0) for line in lines
    )
