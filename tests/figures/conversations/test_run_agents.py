"""An agent has the same name in each command: the stated name, or the inferred one with its mark."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.many_runs import settle
from tests.chat_calls import asked as sent
from tests.chat_calls import call
from tests.cli.invoking import invoke, recorded
from tests.viewer.test_inferred_agents import CALLS
from trace_recorder import TrajectoryRecorder, load_all, open_index
from trace_recorder.figures.conversations.run_agents import agent_names, run_agents_of

INFERRED, STATED = "task (inferred)", "looker"
AGENTS = [None, INFERRED, INFERRED, INFERRED, STATED]
"""The agent of each call. The third call is of an agent that the second call started."""
NAMELESS = (None, None)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a run of the proxy with inferred agents and a stated one, and a run without agents."""
    directory = tmp_path_factory.mktemp("runs")
    recorder = TrajectoryRecorder(directory / "run.json")
    recorder.start(metadata={"session_from": "program"})
    for (messages, answer), name in zip(CALLS, AGENTS, strict=True):
        with recorder.agent(STATED) if name == STATED else nullcontext():
            call(recorder, sent(*messages), answer)
    recorder.finalize()
    recorded(directory / "plain.json")
    settle(directory)
    return directory


def answer(*words: object) -> Any:
    return json.loads(invoke(*words, "--json").output)


def test_a_call_has_the_name_of_its_agent(directory: Path) -> None:
    """`show --brief` and `diff` have the name. `show` also has the call that started an inferred agent."""
    run = directory / "run.json"
    assert [step["agent"] for step in answer("show", run, "--brief")] == AGENTS
    assert [step["a"].get("agent") for step in answer("diff", run, run)["steps"]] == AGENTS
    titles = [line for line in invoke("show", run).output.splitlines() if line.startswith("step ")]
    starters = [None, "started by llm_1", "started by llm_2", "started by llm_1", None]
    agents = [[f"agent {name}"] if name else [] for name in AGENTS]
    expected = [[*words, *filter(None, [starter])] for words, starter in zip(agents, starters, strict=True)]
    assert [title.split(", ")[3:-1] for title in titles] == expected


@pytest.mark.parametrize("name", [INFERRED, STATED])
def test_runs_are_found_and_grouped_by_the_name(directory: Path, name: str, tmp_path: Path) -> None:
    """The runs are the same with an index and without one."""
    assert open_index(directory, tmp_path / "index").update().runs == 2
    for options in ((), ("--index", tmp_path / "index")):
        found = answer("find", f'agent:"{name}"', directory, *options)
        listed = answer("list", directory, "--where", f'agent:"{name}"', *options)
        groups = answer("stats", directory, "--by", "agent", *options)["groups"]
        assert [row["file"] for row in (*found, *listed["trajectories"])] == ["run.json"] * 2
        assert {group["key"]["agent"]: group["runs"] for group in groups} == {f"{STATED} + {INFERRED}": 1, None: 1}


def test_the_names_of_a_run_are_those_of_its_calls_and_steps(directory: Path) -> None:
    """`agent_names` infers without the relations of the prompts."""
    runs = [*load_all(directory), *load_all("tests/data/frozen", strict=False)]
    for run in runs:
        agents = run_agents_of(run)
        named = [agents.of(source) for source in (*run.llm_interactions, *run.agent_steps)]
        assert {*agent_names(run)} - {NAMELESS} == {(agent.name, agent.agent_id) for agent in named} - {NAMELESS}
