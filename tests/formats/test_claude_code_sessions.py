"""Real sessions of Claude Code, compared with a second reading of their lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.formats.files import check_run, real_files, runs_of
from trace_recorder.formats.foreign_runs.run import Call

_Line = dict[str, Any]


def _raw_lines(path: Path) -> list[_Line]:
    lines = []
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


def _blocks(lines: list[_Line], kind: str, where: Callable[[_Line], bool]) -> list[_Line]:
    blocks = []
    for line in filter(where, lines):
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks += [block for block in content or () if isinstance(block, dict) and block["type"] == kind]
    return blocks


def test_real_sessions_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("claude-code/[!c]*/*.jsonl"):
        lines = _raw_lines(path)
        lines += [
            line for one in sorted(path.parent.glob(f"{path.stem}/subagents/*.jsonl")) for line in _raw_lines(one)
        ]
        unique = {line.get("uuid", at): line for at, line in reversed([*enumerate(lines)])}
        lines = [*reversed(unique.values())]
        answered = [
            line
            for line in lines
            if line["type"] == "assistant"
            and isinstance(line.get("message"), dict)
            and not line.get("isApiErrorMessage")
            and line["message"].get("model") != "<synthetic>"
        ]
        last = {line["message"].get("id", at): line["message"] for at, line in enumerate(answered)}
        (run,) = runs_of(path)
        read = check_run(run, tmp_path)
        calls = [call for call in read.llm_interactions if call.error is None]
        assert len(calls) == len(last), path
        assert sum(call.response.usage.output_tokens or 0 for call in calls) == sum(
            (message.get("usage") or {}).get("output_tokens", 0) for message in last.values()
        )
        uses = _blocks(answered, "tool_use", lambda _: True)
        asked = [(call.call_id, call.name) for one in calls for call in one.response.tool_calls]
        assert sorted(name for _, name in asked) == sorted(block["name"] for block in uses)
        assert {block["id"] for block in uses if "id" in block} <= {identity for identity, _ in asked}
        known = {identity for identity, _ in asked}
        results = _blocks(lines, "tool_result", lambda line: line["type"] == "user")
        answers = [block["tool_use_id"] for block in results if block.get("tool_use_id") in known]
        read_results = [result.call_id for step in read.agent_steps for result in step.tool_results]
        assert sorted(result for result in read_results if result in set(answers)) == sorted(answers), path
        thoughts = [block["thinking"] for block in _blocks(answered, "thinking", lambda _: True) if block["thinking"]]
        assert sorted("".join(call.response.reasoning or "" for call in calls).replace("\n", "")) == sorted(
            "".join(thoughts).replace("\n", "")
        )
        texts = "".join(block["text"] for block in _blocks(answered, "text", lambda _: True))
        texts += "".join(line["message"]["content"] for line in answered if isinstance(line["message"]["content"], str))
        assert sorted("".join(call.response.content or "" for call in calls).replace("\n", "")) == sorted(
            texts.replace("\n", "")
        )


def test_real_exports_and_sdk_messages_equal_a_second_reading(tmp_path: Path) -> None:
    for path in real_files("claude-code/web-export/*") + real_files("claude-code/agent-sdk-stream/*"):
        document = json.loads(path.read_bytes())
        lines = document.get("loglines") or [message["message"] for message in document["messages"]]
        answered = [line for line in lines if line["type"] == "assistant"]
        (run,) = runs_of(path)
        read = check_run(run, tmp_path)
        assert len(read.llm_interactions) == len({line["message"].get("id", at) for at, line in enumerate(answered)})
        assert [call.call_id for one in read.llm_interactions for call in one.response.tool_calls] == [
            block["id"] for block in _blocks(answered, "tool_use", lambda _: True)
        ]
        assert len([result for step in read.agent_steps for result in step.tool_results]) == len(
            _blocks(lines, "tool_result", lambda line: line["type"] == "user")
        )


def test_real_sub_agents_are_linked_to_their_calls() -> None:
    (path,) = real_files("claude-code/spotter/258*.jsonl")
    (run,) = runs_of(path)
    found = {}
    for event in run.events:
        if isinstance(event, Call) and event.agent.agent_id:
            found[event.agent.agent_id] = event.agent.name, event.agent.parent_execution_id is not None
    assert found == {"acompact-fffbd0": ("compaction", False), "a881341": ("claude-code-guide", True)}
