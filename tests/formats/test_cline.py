"""Tasks of Cline and Roo: the requests to the model and the messages in the editor, together or separately."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.formats.files import PRODUCED, results_in, said_in
from trace_recorder import load
from trace_recorder.formats.cline.tasks import text_tool_runs
from trace_recorder.formats.foreign_runs.run import Call

_TASK = PRODUCED / "cline" / "1795602841448"
"""Produced by Cline 2.18 with a scripted provider. Its own texts are shortened."""
_ROO = PRODUCED / "cline" / "0b7c2f5e-roo"
_FILES = ("api_conversation_history.json", "ui_messages.json")


@pytest.mark.parametrize("name", _FILES)
def test_a_task_is_one_run_if_any_of_its_files_is_named(name: str) -> None:
    run = load(_TASK / name)
    assert said_in(run) == [
        {
            "saw": 1,
            "text": "I look at the file first.",
            "asked": [("read_file", {"path": "greet.py"})],
            "usage": {"input_tokens": 5000, "output_tokens": 41, "cache_read_input_tokens": 0},
        },
        {
            "saw": 3,
            "text": None,
            "asked": [("execute_command", {"command": "echo hello && exit 3", "requires_approval": False})],
            "usage": {"input_tokens": 5200, "output_tokens": 30, "cache_read_input_tokens": 0},
        },
        {
            "saw": 5,
            "text": None,
            "asked": [("attempt_completion", {"result": "The file prints hello."})],
            "usage": {"input_tokens": 5400, "output_tokens": 25, "cache_read_input_tokens": 0},
        },
    ]
    assert results_in(run) == [
        ("call_1", "read_file", None, '1 | def greet():\n2 |     print("hello")\n\n(File has 2 lines total.)'),
        ("call_2", "execute_command", None, "Command failed with exit code 3.\nOutput:\nhello"),
    ]
    assert [call.timestamp[11:23] for call in run.llm_interactions] == ["10:34:06.282", "10:34:08.066", "10:34:09.425"]
    assert (run.status, run.final_result, run.task) == (
        "completed",
        "The file prints hello.",
        "What does greet.py print?",
    )
    assert {(call.provider, call.model) for call in run.llm_interactions} == {("openai", "scripted-1")}


def test_tokens_and_failures_are_read_from_the_editor_s_file() -> None:
    """For a model without tool calls, the history of requests has neither tokens nor the failed request."""
    run = load(_ROO / _FILES[0])
    first, failed, last = said_in(run)
    assert first["usage"] == {
        "input_tokens": 812,
        "output_tokens": 64,
        "cache_creation_input_tokens": 700,
        "cache_read_input_tokens": 0,
        "cost": 0.0041,
    }
    assert (failed["saw"], failed["text"], last["saw"]) == (3, None, 3)
    error = run.llm_interactions[1].error
    assert error is not None
    assert error.message == "502 Bad Gateway"
    [result] = results_in(run)
    assert result[1:] == ("list_files", None, "greet.py")
    [tool] = [call for step in run.agent_steps for call in step.tool_calls]
    assert tool.arguments == {"path": ".", "recursive": "false"}


def test_the_editor_s_messages_alone_are_a_run() -> None:
    run = load(PRODUCED / "cline" / "shown-only" / "ui_messages.json")
    assert [said["text"] for said in said_in(run)] == ["I list them.", None, None]
    assert [call.error.message for call in run.llm_interactions if call.error] == ["502 Bad Gateway"]
    assert [result[1:] for result in results_in(run)] == [("execute_command", None, ".\ngreet.py\n")]
    assert run.final_result == "There is greet.py."


def test_a_directory_of_tasks_has_one_run_for_each(tmp_path: Path) -> None:
    invoke("import", PRODUCED / "cline", "-o", tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "cline-0b7c2f5e-roo.json",
        "cline-1795602841448.json",
        "cline-shown-only.json",
    ]


def test_an_unclosed_parameter_ends_the_arguments(tmp_path: Path) -> None:
    path = tmp_path / "api_conversation_history.json"
    path.write_text((_ROO / _FILES[0]).read_text(encoding="utf-8").replace("</recursive>", ""))
    run = load(path)
    [tool] = [call for step in run.agent_steps for call in step.tool_calls]
    assert tool.arguments == {"path": "."}


def test_a_text_before_a_result_is_skipped() -> None:
    """In the user's message, the editor may list files before the results."""
    answer = {"content": None, "tool_calls": [{"call_id": "t1", "name": "read_file", "arguments": {"path": "a.py"}}]}
    texts = ["<environment_details>", "[read_file for 'a.py'] Result:\nx = 1"]
    message = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}

    tools = [*text_tool_runs(message, Call(time="", conversation=None, response=answer), "")]

    assert [(tool.call_id, tool.name, tool.result) for tool in tools] == [("t1", "read_file", "x = 1")]


def test_results_of_many_calls_are_read_in_linear_time() -> None:
    """A search through all calls, or through the answer, for each result would take minutes."""
    asked = [{"call_id": f"t{number}", "name": "a", "arguments": number} for number in range(30_000)]
    answer = {"content": "<b>" + "x" * 1_000_000, "tool_calls": asked}
    results = [f"[{name}] Result:\n{number}" for number in range(30_000) for name in ("b", "a")]
    message = {"role": "user", "content": [{"type": "text", "text": text} for text in results]}
    tools = [*text_tool_runs(message, Call(time="", conversation=None, response=answer), "")]
    assert [tool.call_id for tool in tools if tool.name == "a"] == [call["call_id"] for call in asked]
    assert {tool.arguments for tool in tools if tool.name == "b"} == {None}


def test_a_text_that_begins_like_a_result_is_read_in_linear_time() -> None:
    """Trying every length of the tool's name in such a text would take minutes."""
    texts = ["[ls] Result:\na.py", "[" + "x" * 20_000_000]
    message = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}
    assert [(tool.name, tool.result) for tool in text_tool_runs(message, None, "")] == [("ls", "a.py")]
