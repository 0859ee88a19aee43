"""Two agents with the same name are separate in every view, if the run distinguishes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.formats.made import assistant, call, gave, run, use
from trace_recorder import Trajectory, load
from trace_recorder.figures.conversations.conversation import conversations
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.views import to_atif, to_hierarchy, to_invariant, to_traces, to_trl, to_turns

Trajectories = Mapping[str, Trajectory]
LS = use("c1", command="ls")
FOUND = {"llm_1", "llm_3"}, {"llm_2", "llm_4"}
"""The calls of the first agent, and those of the second agent."""


def agent(number: int, name: str = "researcher", parent: int | None = None) -> dict[str, Any]:
    """Return the members of a call that name the agent which made it."""
    return {"agent": name, "agent_id": f"agent_{number}", "parent_agent_id": f"agent_{parent}" if parent else None}


def told(trajectory: Trajectory) -> list[tuple[str | None, str, list[str]]]:
    """Return for each conversation the id of its agent, its kind, and its interactions."""
    return [
        (conversation.agent_id, conversation.kind, [turn.interaction.interaction_id for turn in conversation.turns])
        for conversation in conversations(trajectory, turns_of(trajectory))
    ]


def test_a_call_continues_a_call_of_its_own_agent(trajectories: Trajectories) -> None:
    """The other agent may have had the same question and answer since."""
    turns = turns_of(trajectories["twins"])
    assert [turn.previous and turn.previous.interaction.interaction_id for turn in turns] == [
        None,
        None,
        "llm_1",
        "llm_2",
    ]


def test_each_twin_has_its_own_conversation(trajectories: Trajectories) -> None:
    """The conversations have different parents."""
    first, second = conversations(trajectories["twins"], turns_of(trajectories["twins"]))
    assert (first.agent, first.parent_agent_id != second.parent_agent_id) == (second.agent, True)
    assert tuple({turn.interaction.interaction_id for turn in one.turns} for one in (first, second)) == FOUND


def test_every_view_separates_the_twins(trajectories: Trajectories) -> None:
    """The results of one agent are never in the conversation of the other agent."""
    twins = trajectories["twins"]
    rows = [[message["content"] for message in row["messages"]] for row in to_trl(twins)]
    steps = [[message["content"] for message in step["messages"]] for step in to_hierarchy(twins)["steps"]]
    sessions = [str(session) for session in to_traces(twins)]
    turns = [turn["formatted_conversation"] or "" for turn in to_turns(twins)]

    for views in (rows, steps, sessions, turns):
        both = [view for view in views if "found by east" in view and "found by west" in view]
        assert (both, len(views) >= 2) == ([], True)


def test_invariant_names_the_agent_of_each_message(trajectories: Trajectories) -> None:
    """Each message has the id of its agent and of the parent. Each agent has its own instructions."""
    messages = to_invariant(trajectories["twins"])
    by_agent = Counter(message["metadata"]["agent_id"] for message in messages)
    assert sorted(by_agent.values()) == [5, 5]
    assert {message["metadata"]["agent"] for message in messages} == {"researcher"}
    assert len({message["metadata"]["parent_agent_id"] for message in messages}) == 2


def test_atif_has_a_trajectory_for_each_twin(trajectories: Trajectories, tmp_path: Path) -> None:
    """A run that is written as ATIF and read again still has two agents."""
    document = to_atif(trajectories["twins"])
    (tmp_path / "twins.json").write_text(json.dumps(document))
    back = load(tmp_path / "twins.json")

    ids = {call.interaction_id: (call.agent, call.agent_id, call.parent_agent_id) for call in back.llm_interactions}
    before = trajectories["twins"].llm_interactions
    assert ids == {one.interaction_id: (one.agent, one.agent_id, one.parent_agent_id) for one in before}
    assert told(back) == told(trajectories["twins"])


def test_turns_may_be_selected_by_an_agent_s_id(trajectories: Trajectories) -> None:
    """The id selects one of two agents with the same name."""
    twins = trajectories["twins"]
    identity = twins.llm_interactions[0].agent_id

    assert (len(to_turns(twins, agent="researcher")), len(to_turns(twins, agent=identity))) == (4, 2)


def test_the_same_agent_run_twice_has_two_conversations() -> None:
    """The second run of the agent asks something else, and continues no call."""
    made = run(call(["a"], "1", **agent(1)), call(["b"], "2", **agent(2)))

    assert [turn.relation for turn in turns_of(made)] == ["begins", "begins"]
    assert told(made) == [("agent_1", "first", ["llm_1"]), ("agent_2", "first", ["llm_2"])]


def test_an_agent_with_a_new_id_for_each_call_is_one_agent() -> None:
    """Each call continues the exact messages of the call before it, under the same parent."""
    first = call(["q"], None, LS, **agent(2, parent=1))
    second = call(["q", assistant(None, LS), gave("c1", "x")], "done", **agent(3, parent=1))
    stranger = call(["q", assistant(None, LS), gave("c1", "x")], "done", **agent(3, parent=9))

    assert told(run(first, second)) == [("agent_2", "first", ["llm_1", "llm_2"])]
    assert told(run(first, stranger)) == [("agent_2", "first", ["llm_1"]), ("agent_3", "first", ["llm_2"])]


def test_names_distinguish_agents_without_ids() -> None:
    """If a document has no ids of agents, conversations are separated by the agents' names."""
    made = run(
        call(["a"], "1", agent="x"), call(["a", assistant("1"), "b"], "2", agent="x"), call(["a"], "3", agent="y")
    )

    named = [(conversation.agent, len(conversation.turns)) for conversation in conversations(made, turns_of(made))]
    assert named == [("x", 2), ("y", 1)]
