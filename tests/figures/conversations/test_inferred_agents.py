"""Sub-agents of programs that name none: a conversation that begins with an argument of an earlier tool call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.counting import c_calls
from tests.formats import made
from tests.formats.made import assistant, call, gave, system, use
from trace_recorder import load
from trace_recorder.figures.conversations.inferred_agents import InferredAgent, inferred_agents_of
from trace_recorder.figures.groups import compare
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.tables.frames import to_dataframe
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views import to_atif, to_spans

ASK = use("c1", description="look", prompt="Weather in Tokyo?")
LS = use("c2", command="ls")
TOOLS = {"tools_available": ["bash", "agent"]}
MAIN = call([system("You help."), "q"], None, ASK, **TOOLS)
CHILD = call([system("You are a sub-agent."), "Weather in Tokyo?"], None, LS, **TOOLS)
CHILD_ENDS = call(
    [system("You are a sub-agent."), "Weather in Tokyo?", assistant(None, LS), gave("c2", "a")], "sunny", **TOOLS
)
MAIN_ENDS = call([system("You help."), "q", assistant(None, ASK), gave("c1", "sunny")], "It is sunny.", **TOOLS)
STARTED = InferredAgent("llm_1", "c1", ASK["name"])


def run(*calls: Any, **root: Any) -> Trajectory:
    """Return a run that is recorded by the proxy."""
    return made.run(*calls, metadata={"session_from": "program"}, **root)


def begins_with(text: str) -> dict[str, Any]:
    return call([system("You are a sub-agent."), text], "sunny", **TOOLS)


def test_the_conversation_of_a_sub_agent_is_found() -> None:
    """All calls of the conversation are the sub-agent's, and no call of its parent is."""
    assert inferred_agents_of(run(MAIN, CHILD, CHILD_ENDS, MAIN_ENDS)) == {"llm_2": STARTED, "llm_3": STARTED}


def test_a_sub_agent_s_sub_agent_has_the_sub_agent_as_its_parent() -> None:
    inner = use("c9", prompt="Which city?")
    child = call([system("You are a sub-agent."), "Weather in Tokyo?"], None, inner, **TOOLS)
    assert inferred_agents_of(run(MAIN, child, begins_with("Which city?"))) == {
        "llm_2": STARTED,
        "llm_3": InferredAgent("llm_2", "c9", inner["name"]),
    }


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("<date>2026</date>\n\nWeather in Tokyo?", True),
        ("Weather in Tokyo?\n", True),
        ("Sub-agent 2\n\nWeather in Tokyo?\n<turn-context>\n<time>1</time>\n</turn-context>", True),
        ("Weather in Tokyo?\n<turn-context>now</turn-context>", False),
        ("Weather in Tokyo?\n</turn-context>", False),
        ("What was the Weather in Tokyo?", False),
        ("Weather in Tokyo? Be brief.", False),
        ("Another question", False),
    ],
)
def test_only_whole_lines_of_the_program_may_come_before_the_prompt(text: str, is_found: bool) -> None:
    assert bool(inferred_agents_of(run(MAIN, begins_with(text)))) == is_found


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param((CHILD, MAIN), id="the text came before the call"),
        pytest.param((MAIN, {**CHILD, "agent": "looker", "agent_id": "agent_1"}), id="the agent is stated"),
        pytest.param(
            (MAIN, call(["hi", assistant("hello"), "Weather in Tokyo?"], "sunny", **TOOLS)), id="not the first prompt"
        ),
    ],
)
def test_other_conversations_are_not_sub_agents(calls: tuple[Any, ...]) -> None:
    assert inferred_agents_of(run(*calls)) == {}


def test_only_runs_of_the_proxy_have_inferred_sub_agents() -> None:
    assert inferred_agents_of(made.run(MAIN, CHILD)) == {}


def test_show_says_that_it_is_inferred(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run(MAIN, CHILD, CHILD_ENDS, MAIN_ENDS).to_document()))
    titles = [line for line in invoke("show", path).stdout.splitlines() if line.startswith("llm_")]
    assert [f"agent {STARTED.name}, started by llm_1" in title for title in titles] == [False, True, True, False]


def test_a_prompt_of_several_lines_is_compared_whole() -> None:
    """Two arguments that end with the same line are told apart."""
    first, second = use("c1", prompt="In Tokyo:\nBe brief."), use("c2", prompt="In Paris:\nBe brief.")
    asks = call([system("You help."), "q"], None, first, second, **TOOLS)
    children = map(
        begins_with, ["<date>2026</date>\nIn Paris:\nBe brief.", "In Rome:\nBe brief.", "In Tokyo:\nBe brief."]
    )
    agents = inferred_agents_of(run(asks, *children))
    assert {name: agent.call_id for name, agent in agents.items()} == {"llm_2": "c2", "llm_4": "c1"}


def test_exports_mark_the_calls_and_add_no_agent() -> None:
    """Data frames have a column, ATIF a member of `extra`, OTLP attributes. The agent of the call stays unknown."""
    session = run(MAIN, CHILD, CHILD_ENDS, MAIN_ENDS, status="completed")
    frame = to_dataframe(session, library="polars")
    assert frame["inferred_agent"].to_list() == [None, STARTED.name, STARTED.name, None]
    assert frame["agent"].to_list() == [None] * 4
    atif = to_atif(session)
    documents = [atif, *atif["subagent_trajectories"]]
    extras = [
        step["extra"]
        for document in documents
        for step in document["steps"]
        if "interaction_id" in step.get("extra", {})
    ]
    marks = {extra["interaction_id"]: extra.get("inferred_agent") for extra in extras}
    members = {"started_by": "llm_1", "call_id": "c1", "tool": ASK["name"]}
    assert marks == {"llm_1": None, "llm_2": members, "llm_3": members, "llm_4": None}
    assert not any("agent_id" in document["agent"].get("extra", {}) for document in documents)
    calls = [span.attributes for span in to_spans(session) if "trace_recorder.interaction_id" in span.attributes]
    marked = [span.get("trace_recorder.inferred_agent.started_by") for span in calls]
    assert marked == [None, "llm_1", "llm_1", None]
    assert not any("gen_ai.agent.id" in span for span in calls)


def test_an_export_of_a_running_run_has_no_marks() -> None:
    """A later call may show that a call continues another conversation, and a span that was sent does not change."""
    spans = to_spans(run(MAIN, CHILD, status="running"))
    assert "trace_recorder.inferred_agent.tool" not in {name for span in spans for name in span.attributes}


def test_atif_that_is_read_states_no_agent(tmp_path: Path) -> None:
    """An inference does not become a fact in a run that was exported and imported."""
    path = tmp_path / "atif.json"
    path.write_text(json.dumps(to_atif(run(MAIN, CHILD, CHILD_ENDS, MAIN_ENDS, status="completed"))))
    calls = load(path).llm_interactions
    assert [(each.agent_id, "inferred" in str(each.agent)) for each in calls] == [(None, False)] * 4


def test_groups_by_agent_have_inferred_agents_with_their_mark() -> None:
    """A stated agent with the name of the tool is in another group."""
    stated = made.run({**CHILD, "agent": ASK["name"], "agent_id": "agent_1"})
    comparison = compare([run(MAIN, CHILD, CHILD_ENDS, MAIN_ENDS), stated, run(MAIN_ENDS)], by="agent")
    assert {group.key for group in comparison.groups} == {(f"{ASK['name']} (inferred)",), (ASK["name"],), (None,)}


def test_many_sub_agents_take_linear_work() -> None:
    """A prompt is not compared with the texts of all tool calls."""

    def work(number: int) -> int:
        made_calls = []
        for place in range(number):
            ask = use(f"c{place}", prompt=f"Look at\nfile {place}")
            made_calls += [
                call([system("You help."), "q"], None, ask, **TOOLS),
                begins_with(f"Now:\nLook at\nfile {place}"),
            ]
        session = run(*({**each, "timestamp": "2025-06-12T20:00:00+00:00"} for each in made_calls))
        turns_of(session)
        assert len(inferred_agents_of(session)) == number
        return c_calls(lambda: inferred_agents_of(session))

    work(4)
    assert work(200) < 2.2 * work(100)
