"""Windsurf's transcripts: each step after a tool begins the next call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.files import PRODUCED, results_in
from trace_recorder import load
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of

SAID = "I read the notes."


def step(kind: str, status: str = "done", **facts: Any) -> dict[str, Any]:
    return {"status": status, "type": kind, kind: facts}


STEPS = [
    step("user_input", user_response="Weather?"),
    step("planner_response", response=SAID),
    step("view_file", path="file:///work/notes.md", start_line=0, content="sunny"),
    step("run_command", command="weather", cwd="/work", exit_code=0, output="sunny", user_rejected=False),
    step("list_resources", "error", server_name="memory"),
    step("planner_response", response="It is sunny."),
    step("user_input", user_response="And in Paris?"),
    step("run_command", "running", command="weather paris", cwd="/work"),
]


def write_steps(path: Path, steps: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in steps))
    return path


def test_each_step_after_a_tool_begins_the_next_call(tmp_path: Path) -> None:
    """The produced file has these steps. A step that has not ended has no result."""
    run = load(write_steps(tmp_path / "t1.jsonl", STEPS))
    calls = run.llm_interactions
    assert [call.response.content for call in calls] == [SAID, None, None, "It is sunny.", None]
    assert [[(one.name, one.arguments) for one in call.response.tool_calls] for call in calls] == [
        [("view_file", {"path": "file:///work/notes.md", "start_line": 0})],
        [("run_command", {"command": "weather", "cwd": "/work"})],
        [("list_resources", {"server_name": "memory"})],
        [],
        [("run_command", {"command": "weather paris", "cwd": "/work"})],
    ]
    assert [result[1:3] for result in results_in(run)] == [
        ("view_file", True),
        ("run_command", True),
        ("list_resources", False),
    ]
    assert calls[2].input_messages[-1].extra["exit_code"] == 0
    assert (run.task, run.model, run.gaps, len(calls[-1].input_messages)) == ("Weather?", None, (), 9)
    assert load(PRODUCED / "windsurf" / "transcript.jsonl").llm_interactions == calls


def test_a_step_that_is_damaged_is_a_gap_or_kept(tmp_path: Path) -> None:
    path = write_steps(tmp_path / "t1.jsonl", [*STEPS[:2], {"type": "view_file", "status": "done"}])
    path.write_text(path.read_text() + '{"type"\n')
    run = load(path)
    assert ([gap.what for gap in run.gaps], len(run.llm_interactions)) == (["line 4"], 1)


def test_a_line_of_another_program_is_not_taken_for_a_step(tmp_path: Path) -> None:
    others = [[step("click", x=1), step("scroll", y=2)], [{**STEPS[0], "id": 1}], [{"type": "user_input"}]]
    for number, lines in enumerate(others):
        assert format_of(Source(write_steps(tmp_path / f"{number}.jsonl", lines))) is None
