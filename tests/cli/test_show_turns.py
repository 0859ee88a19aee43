"""`trace-recorder show --turns`: a walk through a run as a reward function would see it, with warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chat_calls import rich_run
from tests.cli.invoking import invoke
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.views import to_turns

TOLD = "<|ASSISTANT|>Thought: I count. <code> print(2) </code> <|USER|>NameError: an error <|ASSISTANT|>"
END = "ught: I count. <code> print(2) </code> <|USER|>NameError: an error <|ASSISTANT|> <|USER|>Go on. <|ASSISTANT|>"[
    -97:
]
CODE = "Thought: I count.\n<code>\nprint(2)\n</code>"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of a code agent: its first code failed, then its answer was empty, and its last call was refused."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        history = [{"role": "user", "content": "How many?"}]
        for answer, shown in ((CODE, "NameError: an error"), ("", "Go on.")):
            recorder.record_llm_interaction(history, {"content": answer}, "openai", "m")
            history += [{"role": "assistant", "content": answer}, {"role": "user", "content": shown}]
        recorder.record_llm_interaction(history, {"content": CODE}, "openai", "m")
    return path


def test_each_turn_is_shown_with_its_warnings(run: Path) -> None:
    """The warnings name an error in a result, an empty answer, and code without a result."""
    result = invoke("show", run, "--turns", "--parser", "code")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Trace of 3 turns",
        "=== Turn 1 ===",
        "Model saw: <|USER|>How many? <|ASSISTANT|>",
        "Model said: Thought: I count. <code> print(2) </code>",
        "Thought: I count.",
        "Tool code: print(2)",
        "Tool result: NameError: an error",
        "WARNING: the tool's output mentions an error",
        "=== Turn 2 ===",
        f"Model saw: ... {TOLD}",
        "Model said: ",
        "WARNING: the model's completion is empty",
        "WARNING: nothing could be parsed from the completion",
        "=== Turn 3 ===",
        f"Model saw: ...{END}",
        "Model said: Thought: I count. <code> print(2) </code>",
        "Thought: I count.",
        "Tool code: print(2)",
        "WARNING: tool code without output",
    ]


def test_calls_that_are_not_turns_are_counted(tmp_path: Path) -> None:
    """`show --turns` counts failed calls, which are not part of a trace."""
    result = invoke("show", rich_run(tmp_path / "rich.json"), "--turns")

    assert "No turns: 2 x calls that failed, are in flight, or whose prompt is damaged" in result.stdout


def test_full_shortens_nothing(run: Path) -> None:
    """With --full no text is shortened."""
    assert "..." not in invoke("show", run, "--turns", "--full").stdout


def test_the_turns_may_be_printed_as_json(run: Path) -> None:
    """`show --turns --json` prints the same turns that `export` writes."""
    assert json.loads(invoke("show", run, "--turns", "--json").stdout) == to_turns(load(run))


def test_a_run_may_be_exported_with_another_parser(run: Path, tmp_path: Path) -> None:
    """A parser for text agents reads the code from the text of the model."""
    invoke("export", run, "-f", "toolbrain", "--form", "code", "-o", tmp_path / "out.json")

    first = json.loads((tmp_path / "out.json").read_text())[0]
    assert first["parsed_completion"] == {"thought": "I count.", "tool_code": "print(2)", "final_answer": None}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--parser", "code"], "it needs --turns"),
        (["--turns", "--parser", "guess"], "'guess' is not one of calls, code, react"),
        (["--turns", "--step", "1"], "turns have no step numbers"),
    ],
)
def test_misuse_exits_with_2(run: Path, arguments: list[str], why: str) -> None:
    """Invalid options of `show --turns` exit with 2."""
    result = invoke("show", run, *arguments)

    assert (result.exit_code, why in " ".join(result.stderr.replace("│", " ").split())) == (2, True)
