"""Sub-agents of programs that name none: a conversation that begins with an argument of an earlier tool call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import invoke
from tests.formats import made
from tests.formats.made import assistant, call, gave, system, use
from trace_recorder.figures.conversations.inferred_agents import InferredAgent, inferred_agents_of
from trace_recorder.values.trajectory import Trajectory

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
    assert ["sub-agent of llm_1 (inferred)" in title for title in titles] == [False, True, True, False]
