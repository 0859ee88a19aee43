"""Side calls: a program's questions to the model outside its conversation, and their place in views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.formats import made
from tests.formats.made import assistant, call, gave, system, use
from trace_recorder.figures.conversations.side_calls import side_calls_of
from trace_recorder.formats.left_out import SIDE_CALLS
from trace_recorder.tables.frames import to_dataframe
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views import preference_pairs, to_atif, to_openai_finetuning, to_spans, to_trl, to_turns

LS = use("c1", command="ls")
TOOLS = {"tools_available": ["bash"]}
TITLE = call([system("Write a title."), "<session>q</session>"], "Listing")
QUOTA = call(["quota"], "#")
FIRST = call([system("You help."), "q"], None, LS, **TOOLS)
SECOND = call([system("You help."), "q", assistant(None, LS), gave("c1", "a")], "done", **TOOLS)
SESSION = (QUOTA, TITLE, FIRST, SECOND)


def run(*calls: Any, **root: Any) -> Trajectory:
    """Return a run that is recorded by the proxy."""
    return made.run(*calls, metadata={"session_from": "program"}, **root)


def test_questions_beside_the_conversation_are_side_calls() -> None:
    """A check of the quota and a call for a title are side calls, before the conversation and within it."""
    assert side_calls_of(run(*SESSION)) == {"llm_1", "llm_2"}
    assert side_calls_of(run(FIRST, TITLE, SECOND)) == {"llm_2"}


def test_the_same_side_question_may_be_asked_twice() -> None:
    """A second call for a title has the instructions of the first call, and neither continues the other."""
    other_title = call([system("Write a title."), "<session>r</session>"], "Another")
    assert side_calls_of(run(QUOTA, TITLE, FIRST, QUOTA, other_title, SECOND)) == {"llm_1", "llm_2", "llm_4", "llm_5"}


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param((TITLE, QUOTA), id="an agent without tools"),
        pytest.param((FIRST, {**TITLE, "agent": "writer", "agent_id": "agent_1"}), id="another agent"),
        pytest.param(
            (FIRST, SECOND, call([*SECOND["input_messages"], assistant("done"), "Summarize."], "It listed.")),
            id="a summary of the conversation",
        ),
        pytest.param(
            (
                call([system("You help."), "plan"], "first look"),
                call([system("You help."), "plan", assistant("first look"), "go"], "done", **TOOLS),
            ),
            id="continued later with tools",
        ),
        pytest.param((FIRST, {**TITLE, "api": None}), id="recorded by hand"),
    ],
)
def test_other_calls_without_tools_are_not_side_calls(calls: tuple[Any, ...]) -> None:
    assert side_calls_of(run(*calls)) == frozenset()


def test_a_run_of_an_agent_s_own_recorder_has_no_side_calls() -> None:
    """An agent that records itself decides what its calls are. A call without tools may be the agent's plan."""
    assert side_calls_of(made.run(*SESSION)) == frozenset()
    assert answers(to_openai_finetuning(made.run(*SESSION))) == ["#", "Listing", "done"]


def test_formats_that_can_mark_side_calls_mark_them() -> None:
    """Data frames mark side calls by a column, ATIF by a member of `extra`, OTLP by an attribute of the span."""
    session = run(*SESSION, status="completed")
    frame = to_dataframe(session, library="polars")
    assert frame["is_side_call"].to_list() == [True, True, False, False]
    atif = to_atif(session)
    marks = {
        step["extra"]["interaction_id"]: step["extra"].get("side_call")
        for document in [atif, *atif["subagent_trajectories"]]
        for step in document["steps"]
        if "interaction_id" in step.get("extra", {})
    }
    assert marks == {"llm_1": True, "llm_2": True, "llm_3": None, "llm_4": None}
    spans = [span.attributes for span in to_spans(session) if "trace_recorder.interaction_id" in span.attributes]
    assert [span.get("trace_recorder.side_call") for span in spans] == [True, True, None, None]


def answers(rows: list[Any]) -> list[str]:
    return [row["messages"][-1]["content"] for row in rows]


@pytest.mark.parametrize("rows", [to_openai_finetuning, to_trl])
def test_side_calls_make_no_training_row(rows: Any) -> None:
    """Side calls are counted. An option includes every answer."""
    made, left_out = rows.with_report(run(*SESSION))
    assert (answers(made), left_out[SIDE_CALLS]) == (["done"], 2)
    assert answers(rows(run(*SESSION), include_incomplete=True)) == ["#", "Listing", "done"]


def test_a_toolbrain_trace_has_no_side_calls() -> None:
    turns, left_out = to_turns.with_report(run(*SESSION))
    assert ([turn["model_completion"] for turn in turns][1:], left_out[SIDE_CALLS]) == (["done"], 2)
    assert len(to_turns(run(*SESSION), include_replayed=True)) == 4


def test_sessions_with_side_calls_make_pairs() -> None:
    """Preference pairs have only answers of the conversation, whatever side calls the program makes."""
    runs = [run(*SESSION, trajectory_id=name) for name in ("a", "b")]
    (pair,) = preference_pairs(runs, lambda one: float(one.trajectory_id == "a"))
    assert (pair["chosen_id"], pair["rejected_id"]) == ("a", "b")


def test_show_and_stats_report_side_calls(tmp_path: Path) -> None:
    """`show` and `stats` report side calls."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run(*SESSION).to_document()))
    shown, counted = (invoke(command, path).stdout for command in ("show", "stats"))
    titles = [line for line in shown.splitlines() if line.startswith("llm_")]
    assert ["side call" in line for line in titles] == [True, True, False, False]
    assert "4 LLM calls, 2 side calls" in counted
