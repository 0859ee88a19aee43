"""Copilot's chats in VS Code: one document, or lines that each change an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.files import facts_in, produced_files, results_in, runs_of, said_in
from trace_recorder import load
from trace_recorder.facts import SourceRecordFact

_FILE = "/home/dev/weather/greet.py"
_EDIT = {"filePath": _FILE, "oldString": "def greet():", "newString": "def greet(name):"}
_READ = {"filePath": _FILE, "startLine": 1}


@pytest.mark.parametrize("path", produced_files("copilot-chat/*"), ids=lambda path: path.suffix)
def test_each_round_is_a_call_in_a_document_and_in_lines(path: Path) -> None:
    run = load(path)
    assert said_in(run) == [
        {
            "saw": 2,
            "text": "I read the file. ",
            "asked": [("read_file", _READ), ("list_dir", {"path": "/home/dev/weather"})],
        },
        {"saw": 5, "text": None, "asked": [("replace_string_in_file", _EDIT)]},
        {"saw": 7, "text": "Done: `greet.py` takes a name."},
        {"saw": 9, "text": "It is greet.py.", "usage": {"input_tokens": 2300, "output_tokens": 8}},
        {"saw": 11, "text": "I run it.", "asked": [("run_in_terminal", {"command": "python greet.py"})]},
    ]
    assert results_in(run) == [
        ("toolu_1__vscode-1", "read_file", None, "def greet():\n    print('hello')"),
        ("toolu_2__vscode-2", "list_dir", None, "greet.py"),
        ("toolu_3__vscode-3", "replace_string_in_file", None, f"The file was edited:\n{_FILE}"),
        ("7e2a", "run_in_terminal", None, "hello"),
    ]
    assert run.annotations == {"usage_of_request_2": {"input_tokens": 2210, "output_tokens": 31}}


@pytest.mark.parametrize("path", produced_files("copilot-chat/*"), ids=lambda path: path.suffix)
def test_a_session_has_its_times_its_models_and_its_end(path: Path) -> None:
    run = load(path)
    times = [call.timestamp[14:23] for call in run.llm_interactions]
    assert times == ["46:40.500", "46:43.000", "46:46.000", "47:00.000", "47:10.000"]
    models = [(call.provider, call.model) for call in run.llm_interactions]
    assert models == [("copilot", "claude-sonnet-4-5-20250929")] * 3 + [("copilot", "gpt-4.1")] * 2
    assert (run.status, run.task, run.gaps) == ("failed", "Say hello by name", ())
    last = run.llm_interactions[-1]
    assert last.error is not None
    assert (last.error.type, last.error.message) == ("rateLimited", "Sorry, you have exceeded your rate limit.")


def test_the_user_s_message_is_the_sent_message() -> None:
    [path] = produced_files("copilot-chat/*.json")
    context, message = load(path).llm_interactions[0].input_messages
    assert context.content == "<environment_info>\nLinux\n</environment_info>\n"
    assert message.content == "<userRequest>\nSay hello by name\n</userRequest>\n"
    assert message.extra == {"typed": "Say hello by name"}


def test_nested_changes_make_no_object_that_is_too_deep(tmp_path: Path) -> None:
    [original] = produced_files("copilot-chat/*.jsonl")
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    changes = [{"kind": 1, "k": ["deep", *["a"] * length], "v": deep} for length in range(0, 2000, 100)]
    path = tmp_path / "session.jsonl"
    path.write_text(original.read_text(encoding="utf-8") + "".join(json.dumps(change) + "\n" for change in changes))
    run = load(path)
    assert said_in(run) == said_in(load(original))
    gaps = [gap.what for gap in run.gaps if gap.what.startswith("line")]
    assert gaps == [f"line {number}" for number in range(17, 34)]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": 1, "k": ["requests", 7, "result"], "v": {}},
        {"kind": 1, "k": ["requests", -1], "v": {}},
        {"kind": 2, "k": ["customTitle"], "v": [1]},
        {"kind": 9, "k": ["customTitle"], "v": 1},
        {"kind": 1, "k": [], "v": 1},
        {"kind": 3, "k": [["requests"], {}]},
    ],
)
def test_a_line_that_changes_nothing_is_a_gap(change: dict[str, Any], tmp_path: Path) -> None:
    [original] = produced_files("copilot-chat/*.jsonl")
    path = tmp_path / "session.jsonl"
    path.write_text(original.read_text(encoding="utf-8") + json.dumps(change) + "\n")
    run = load(path)
    assert said_in(run) == said_in(load(original))
    assert [(gap.what, gap.why) for gap in run.gaps] == [("line 14", "it changes a member that does not exist")]


def _kept_requests(directory: Path, *requests: dict[str, Any]) -> list[Any]:
    path = directory / "session.json"
    path.write_text(json.dumps({"sessionId": "s", "requests": requests}))
    (run,) = runs_of(path)
    return [event.value for event in facts_in(run, SourceRecordFact) if event.what == "request"]


def test_members_that_no_event_has_are_kept(tmp_path: Path) -> None:
    """The texts, thoughts, tool calls and results are in the calls, so they are not kept twice."""
    thinking = {"text": "Hm.", "encrypted": "e"}
    call = {"id": "c", "name": "ls", "arguments": "{}", "type": "function"}
    rounds = [{"response": "I look.", "toolCalls": [call], "thinking": thinking, "phase": "final"}, {"response": "Ok."}]
    results = {"c": {"content": [{"value": "a"}], "hasError": False}, "other": {"content": [{"value": "b"}]}}
    sent = [{"type": 1, "text": "Look"}, {"type": 2, "imageUrl": {"url": "https://example.com/a.png"}}]
    metadata = {
        "toolCallRounds": rounds,
        "toolCallResults": results,
        "renderedUserMessage": sent,
        "codeBlocks": [{"code": "x"}],
    }
    request = {"requestId": "r", "message": {"text": "look", "parts": [1]}, "result": {"metadata": metadata}}

    assert _kept_requests(tmp_path, request) == [
        {
            "requestId": "r",
            "message": {"parts": [1]},
            "result": {
                "metadata": {
                    "codeBlocks": [{"code": "x"}],
                    "renderedUserMessage": [sent[1]],
                    "toolCallRounds": [{"phase": "final", "thinking": {"encrypted": "e"}}, {}],
                    "toolCallResults": {"c": {"hasError": False}, "other": results["other"]},
                }
            },
        }
    ]
    [tool_call] = load(tmp_path / "session.json").llm_interactions[0].response.tool_calls
    assert tool_call.extra == {"type": "function"}


def test_the_counts_of_a_request_are_kept_if_its_call_states_others(tmp_path: Path) -> None:
    rounds = [{"response": "Hi", "usage": {"prompt_tokens": 3}}]
    metadata = {"promptTokens": 5, "outputTokens": 2, "toolCallRounds": rounds}
    [kept] = _kept_requests(tmp_path, {"requestId": "r", "message": "hi", "result": {"metadata": metadata}})
    assert kept == {"requestId": "r", "result": {"metadata": {"promptTokens": 5, "outputTokens": 2}}}


def test_a_request_that_the_user_took_back_is_kept_whole(tmp_path: Path) -> None:
    metadata = {"toolCallRounds": [{"response": "Hi"}], "summary": {"text": "s"}}
    request = {"requestId": "r", "message": {"text": "hi"}, "isHidden": True, "result": {"metadata": metadata}}
    assert _kept_requests(tmp_path, request) == [request]


def test_members_of_unexpected_types_are_kept(tmp_path: Path) -> None:
    """Only values that were read, because they have the expected types, are not kept again."""
    metadata = {
        "toolCallRounds": [{"response": ["Hi"], "toolCalls": {"c": 1}}],
        "toolCallResults": [{"c": 1}],
        "renderedUserMessage": {"text": "hi"},
    }
    request = {"requestId": "r", "message": "hi", "result": {"metadata": metadata}}
    assert _kept_requests(tmp_path, request) == [{"requestId": "r", "result": {"metadata": metadata}}]
