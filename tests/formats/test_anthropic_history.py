"""Conversations in Anthropic's form, and OpenHands' completion logs: calls, results, tokens, costs, times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import loaded, produced_document, real_files
from trace_recorder import load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

_MESSAGES = produced_document("anthropic-history/messages.json")

_METRICS = {"inputTokens": 9, "outputTokens": 2, "cacheReadTokens": 4, "cacheWriteTokens": 1, "cost": 0.5}
_OLDER_METRICS = {"tokens": {"prompt": 9, "completion": 2, "cached": 4}, "cost": 0.5}
_LOG = produced_document("openhands-completions/log.json")


def _written(directory: Path, *values: object) -> Path:
    path = directory / "file.json"
    path.write_text("\n".join(map(json.dumps, values)))
    return path


def test_a_list_of_messages_has_tool_calls_results_and_times(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _MESSAGES))
    first, second = run.llm_interactions

    assert run.task == "Read a.py."
    assert [(call.name, call.arguments) for call in first.response.tool_calls] == [("read", {"path": "a.py"})]
    assert [message.role for message in second.input_messages] == ["user", "assistant", "tool"]
    assert [result.result for step in run.agent_steps for result in step.tool_results] == ["print()"]
    assert first.timestamp == "2026-07-06T22:27:53.493000+00:00"
    assert run.gaps == ()


def test_each_line_and_object_is_a_run_of_its_own(tmp_path: Path) -> None:
    row = {"messages": _MESSAGES, "system_prompt": "Be brief.", "tools": [{"name": "read"}], "model": "m", "x": 1}
    first, second = loaded(_written(tmp_path, row, {**row, "id": "second"}))

    assert (first.trajectory_id, second.trajectory_id) == ("file-1", "second")
    assert (first.model, first.metadata["row"], first.llm_interactions[0].tools[0].name) == ("m", {"x": 1}, "read")
    assert first.llm_interactions[0].input_messages[0].content == "Be brief."


@pytest.mark.parametrize(("metrics", "written"), [(_METRICS, 1), (_OLDER_METRICS, None)])
def test_counts_of_cline_are_kept_unchanged(tmp_path: Path, metrics: dict[str, Any], written: int | None) -> None:
    model = {"id": "claude", "provider": "cline"}
    answer = _MESSAGES[1] | {"metrics": metrics, "modelInfo": model}
    run = load(_written(tmp_path, {"messages": [_MESSAGES[0], answer], "sessionId": "s"}))
    [call] = run.llm_interactions
    usage = call.response.usage

    assert (run.trajectory_id, run.model, call.model, call.provider) == ("s", "claude", "claude", "cline")
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (9, 2, 0.5)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (4, written)
    assert run.metrics["cache_read_input_tokens"] == 4


def test_a_usage_in_anthropic_s_form_is_counted_by_its_dialect(tmp_path: Path) -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 7}
    [call] = load(_written(tmp_path, [_MESSAGES[0], _MESSAGES[1] | {"usage": usage}])).llm_interactions
    assert (call.api, call.response.usage.input_tokens) == ("anthropic-messages", 3)


def test_messages_without_anthropic_blocks_are_chat_messages(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}]
    assert format_of(Source(_written(tmp_path, messages))) == "chat-messages"


def test_the_real_session_has_each_call_and_result() -> None:
    [path] = real_files("newest/chat/cline-2026.messages.json")
    messages = json.loads(path.read_text())["messages"]
    answers = [message for message in messages if message["role"] == "assistant"]
    blocks = [block for message in messages for block in message["content"]]
    run = load(path)

    calls = [call for interaction in run.llm_interactions for call in interaction.response.tool_calls]
    asked = [(call.call_id, call.name, call.arguments) for call in calls]
    assert asked == [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    results = [result.call_id for step in run.agent_steps for result in step.tool_results]
    assert results == [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    read = [(call.response.usage.input_tokens, call.response.usage.cost) for call in run.llm_interactions]
    metrics = [message.get("metrics", {}) for message in answers]
    assert read == [(stated.get("inputTokens"), stated.get("cost")) for stated in metrics]


def test_a_completion_log_is_one_call_with_its_response(tmp_path: Path) -> None:
    run = load(_written(tmp_path, _LOG))
    [call] = run.llm_interactions

    assert (call.response.content, call.response.usage.input_tokens, call.response.usage.cost) == ("a", 5, 0.25)
    assert (call.timestamp, call.duration_seconds) == ("2025-09-04T19:43:41.000000+00:00", 4.5)
    assert (call.parameters, [tool.name for tool in call.tools]) == ({"temperature": 0}, ["f"])
    assert run.metadata["log"] == {"context_window": 100}


def test_the_real_completion_logs_have_their_responses() -> None:
    for path in real_files("newest/chat/litellm_proxy__*"):
        log = json.loads(path.read_text())
        [call] = load(path).llm_interactions
        message = log["response"]["choices"][0]["message"]
        assert call.response.content == message["content"]
        assert [asked.call_id for asked in call.response.tool_calls] == [
            tool_call["id"] for tool_call in message["tool_calls"]
        ]
        assert len(call.input_messages) == len(log["messages"])
        assert call.response.usage.output_tokens == log["response"]["usage"]["completion_tokens"]
