"""The output and logs of programs: events of Codex, Gemini CLI, Claude Code and Grok, recorded from each program."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.formats.files import PRODUCED, loaded, real_files, results_in, said_in
from trace_recorder import load
from trace_recorder.formats.foreign_runs.run import Members


def test_items_of_codex_are_answers_with_their_tools() -> None:
    run = load(PRODUCED / "codex-exec" / "weather.jsonl")
    asked = [("shell", {"command": "/bin/bash -lc false"}), ("shell", {"command": "/bin/bash -lc 'echo sunny'"})]
    assert said_in(run) == [
        {"saw": 0, "text": "Let me look.", "asked": asked},
        {"saw": 3, "text": "It is sunny in Tokyo."},
    ]
    assert [call.response.reasoning for call in run.llm_interactions] == ["I look.", "Done."]
    assert results_in(run) == [("item_3", "shell", False, None), ("item_4", "shell", True, "sunny\n")]
    assert (run.status, run.annotations["usage_until_turn_1"]["output_tokens"]) == ("completed", 29)


@pytest.mark.parametrize(
    ("item", "asked", "result"),
    [
        (
            {"type": "mcp_tool_call", "server": "weather", "tool": "now", "arguments": {"city": "Rome"}},
            ("weather__now", {"city": "Rome"}),
            {"result": {"content": [{"type": "text", "text": "windy"}]}},
        ),
        ({"type": "file_change", "changes": [{"path": "a.py", "kind": "add"}]}, ("apply_patch", None), {}),
        ({"type": "web_search", "query": "weather"}, ("web_search", {"query": "weather"}), {}),
        ({"type": "collab_tool_call", "tool": "spawn_agent", "prompt": "Look."}, ("spawn_agent", None), {}),
    ],
)
def test_each_kind_of_tool_item_is_a_call_with_its_result(
    tmp_path: Path, item: Members, asked: Any, result: Members
) -> None:
    name, arguments = asked
    changed = {key: value for key, value in item.items() if key in ("changes", "prompt")}
    lines = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.started", "item": {**item, "id": "item_1", "status": "in_progress"}},
        {"type": "item.completed", "item": {**item, **result, "id": "item_1", "status": "completed"}},
        {"type": "turn.failed", "error": {"message": "no more credits"}},
    ]
    run = load(_written(tmp_path, lines))
    [call] = run.llm_interactions[0].response.tool_calls
    assert (call.name, call.arguments) == (name, arguments or changed)
    [(_, _, success, text)] = results_in(run)
    assert (success, text) == (True, [{"type": "text", "text": "windy"}] if result else None)
    assert (run.status, run.error and run.error.message) == ("failed", "no more credits")


def test_an_item_without_an_end_is_a_tool_call_without_a_result(tmp_path: Path) -> None:
    started = {"id": "item_1", "type": "command_execution", "command": "sleep 9", "status": "in_progress"}
    run = load(_written(tmp_path, [{"type": "turn.started"}, {"type": "item.started", "item": started}]))
    assert said_in(run) == [{"saw": 0, "text": None, "asked": [("shell", {"command": "sleep 9"})]}]
    assert (results_in(run), run.status) == ([], "unknown")


def test_pieces_of_gemini_s_answers_are_joined() -> None:
    run = load(PRODUCED / "gemini-stream" / "weather.jsonl")
    asked = [("run_shell_command", {"command": "echo sunny"}), ("read_file", {"file_path": "nothing.txt"})]
    assert said_in(run) == [
        {"saw": 1, "text": "Let me look.", "asked": asked},
        {"saw": 4, "text": "It is sunny in Tokyo."},
    ]
    results = [(name, success, text) for _, name, success, text in results_in(run)]
    failed = "File not found: /home/user/project/nothing.txt"
    assert results == [("run_shell_command", True, "sunny"), ("read_file", False, failed)]
    assert (run.task, run.model, run.status) == ("What is the weather?", "gemini-2.5-flash", "completed")
    assert run.annotations["usage"]["output_tokens"] == 31


def test_gemini_s_real_stream_has_the_provider_s_answers() -> None:
    [path] = real_files("newest/cli/gemini-cli-0.61.0.stream.jsonl")
    [run] = loaded(path)
    assert [call.response.content for call in run.llm_interactions] == [
        "Let me look.",
        "It is sunny in Tokyo and Paris.",
    ]
    assert [success for _, _, success, _ in results_in(run)] == [True, True]


def test_a_failed_stream_of_gemini_has_the_error(tmp_path: Path) -> None:
    lines = [
        {"type": "init", "session_id": "s", "model": "m"},
        {"type": "message", "role": "user", "content": "Weather?"},
        {"type": "error", "severity": "error", "message": "Loop detected"},
        {"type": "result", "status": "error", "error": {"type": "FatalTurnLimitedError", "message": "too many turns"}},
    ]
    run = load(_written(tmp_path, lines))
    assert run.error is not None
    assert (run.status, run.error.type, run.error.message) == ("failed", "FatalTurnLimitedError", "too many turns")


def test_a_successful_stream_of_gemini_after_an_error_has_no_error(tmp_path: Path) -> None:
    lines = [
        {"type": "init", "session_id": "s", "model": "m"},
        {"type": "message", "role": "user", "content": "Weather?"},
        {"type": "error", "severity": "error", "message": "the connection was lost"},
        {"type": "message", "role": "assistant", "content": "Sunny.", "delta": True},
        {"type": "result", "status": "success"},
    ]
    run = load(_written(tmp_path, lines))
    assert (run.status, run.error) == ("completed", None)


def test_claude_code_s_stream_does_not_state_the_tokens_of_its_answers() -> None:
    """Lines are written before an answer has ended, so they state the output tokens of the answer's first event."""
    run = load(PRODUCED / "claude-code" / "weather.stream.jsonl")
    usages = [call.response.usage for call in run.llm_interactions]
    assert [(one.input_tokens, one.output_tokens, one.extra["output_tokens_at_start"]) for one in usages] == [
        *((1671, None, 1), (1834, None, 1), (2013, None, 1))
    ]
    assert run.annotations["usage"]["output_tokens"] == 68


def test_with_its_events_claude_code_s_stream_states_all_tokens() -> None:
    run = load(PRODUCED / "claude-code" / "weather.partial.jsonl")
    responses = [call.response for call in run.llm_interactions]
    assert [(response.usage.output_tokens, response.finish_reason) for response in responses] == [
        *((30, "tool_use"), (30, "tool_use"), (8, "end_turn"))
    ]
    stated = run.annotations["usage"]
    assert sum(response.usage.output_tokens or 0 for response in responses) == stated["output_tokens"]
    assert sum(response.usage.input_tokens or 0 for response in responses) == stated["input_tokens"]


@pytest.mark.parametrize("name", ["weather.stream.jsonl", "weather.partial.jsonl"])
def test_the_result_of_a_sub_agent_is_once_in_claude_code_s_stream(name: str) -> None:
    """The sub-agent's answers have no times, so the execution that started the sub-agent follows its own call."""
    run = load(PRODUCED / "claude-code" / name)
    steps = [[(result.name, result.success) for result in step.tool_results] for step in run.agent_steps]
    assert steps == [[("Bash", True), ("Bash", False)], [("Agent", None)], []]


def test_updates_of_grok_are_answers() -> None:
    run = load(PRODUCED / "grok-updates" / "updates.jsonl")
    files = {"target_file": "nothing.txt", "path": "nothing.txt", "file_path": "nothing.txt"}
    asked = [("run_terminal_command", {"command": "echo sunny", "description": "look"}), ("read_file", files)]
    assert said_in(run) == [
        {"saw": 1, "text": "Let me look.", "asked": asked},
        {"saw": 4, "text": "It is sunny in Tokyo."},
    ]
    (_, _, shell, output), failed = results_in(run)
    assert (shell, output.split("\n")[:2]) == (True, ["exit: 0", "sunny"])
    assert failed[1:] == ("read_file", False, "Error: /home/user/project/nothing.txt does not exist.")
    assert (run.task, run.model, run.status) == ("What is the weather?", "grok-4", "completed")
    assert run.annotations["usage_of_turn_1"]["outputTokens"] == 50


def test_answers_of_grok_without_tools_are_separated_by_their_streams(tmp_path: Path) -> None:
    def update(kind: str, stream: int, text: str) -> Members:
        said = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        return {"method": "session/update", "params": {"update": said, "_meta": {"streamStartMs": stream}}}

    parts = [
        ("agent_thought_chunk", 1, "Hm."),
        ("agent_message_chunk", 1, "One"),
        ("agent_message_chunk", 1, "."),
        ("agent_message_chunk", 2, "Two."),
    ]
    run = load(_written(tmp_path, [update(*part) for part in parts]))
    assert [(call.response.reasoning, call.response.content) for call in run.llm_interactions] == [
        *(("Hm.", "One."), (None, "Two."))
    ]


def test_a_session_of_grok_in_a_directory_is_imported_once(tmp_path: Path) -> None:
    """The session's history has the messages that the model saw. The file of updates repeats them, and is not
    imported.
    """
    session = tmp_path / "sessions" / "01a2"
    session.mkdir(parents=True)
    copy(PRODUCED / "grok-updates" / "updates.jsonl", session)
    history: list[Members] = [
        {"type": "user", "content": [{"type": "text", "text": "What is the weather?"}]},
        {"type": "assistant", "content": "It is sunny.", "model_id": "grok-4", "model_fingerprint": "fp"},
    ]
    (session / "chat_history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history))
    ended = invoke("import", tmp_path / "sessions", "-o", tmp_path / "out")
    assert ended.exit_code == 0
    assert [load(path).metadata["imported_from"]["format"] for path in (tmp_path / "out").glob("*.json")] == ["grok"]


def _written(directory: Path, lines: list[Members]) -> Path:
    path = directory / "stream.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_items_without_ids_are_matched_by_their_command(tmp_path: Path) -> None:
    """A start and an end with the same command are one tool call, and each tool has its own result."""
    commands = ["ls", "pwd", "id"]
    items = [{"type": "command_execution", "command": command, "status": "in_progress"} for command in commands]
    ended = [{**item, "aggregated_output": item["command"].upper(), "status": "completed"} for item in items[:2]]
    lines = [
        {"type": "thread.started", "thread_id": "t"},
        *({"type": "item.started", "item": item} for item in items),
        *({"type": "item.completed", "item": item} for item in ended),
    ]

    run = load(_written(tmp_path, lines))

    [call] = run.llm_interactions
    assert [tool_call.arguments["command"] for tool_call in call.response.tool_calls] == commands
    assert len({tool_call.call_id for tool_call in call.response.tool_calls}) == len(commands)
    assert [(name, text) for _, name, _, text in results_in(run)] == [("shell", "LS"), ("shell", "PWD")]
