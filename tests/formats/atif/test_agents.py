"""ATIF: the place of sub-agents, the calls for which they ran, and times."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.formats.made import assistant, call, gave, run, use
from trace_recorder import Trajectory, TrajectoryRecorder, load
from trace_recorder.formats.atif.writing import to_atif, to_atif_files
from trace_recorder.reading.document import from_document

Payload = Any


def _say(recorder: TrajectoryRecorder, asked: str, content: str | None, *calls: Payload) -> None:
    messages = [{"role": "user", "content": asked}]
    recorder.record_llm_interaction(messages, {"content": content, "tool_calls": calls}, "openai", "m")


def _use(call_id: str, **arguments: Payload) -> Payload:
    return {"call_id": call_id, "name": "research", "arguments": arguments}


@pytest.fixture(params=["journal", "document"])
def researched(tmp_path: Path, request: pytest.FixtureRequest) -> Trajectory:
    """Record two parallel researchers, each for a call of its own.

    One researcher starts a reader for a call of its own.
    """
    path = tmp_path / "run.json"

    async def main(recorder: TrajectoryRecorder) -> None:
        @recorder.tool
        async def research(topic: str) -> str:
            await asyncio.sleep(0)
            with recorder.agent("researcher"):
                _say(recorder, topic, f"I ask for {topic}.", _use(f"read_{topic}", page=topic))
                if topic == "Rome":
                    with recorder.tool_call("research", {"page": topic}, call_id="read_Rome"):
                        with recorder.agent("reader"):
                            _say(recorder, f"read {topic}", "It says 31.")
                await asyncio.sleep(0)
                _say(recorder, f"sum up {topic}", f"{topic} is warm.")
            return topic

        _say(recorder, "Compare.", None, _use("call_u", topic="Ulm"), _use("call_r", topic="Rome"))
        await asyncio.gather(research(topic="Rome"), research(topic="Ulm"))

    with TrajectoryRecorder(path, task="compare") as recorder:
        asyncio.run(main(recorder))
    return load(path) if request.param == "journal" else from_document(json.loads(path.read_bytes()), "run")


def _tree(document: Payload) -> Payload:
    """Return for each trajectory its agent, its first question, and the sub-agents of its calls."""
    subs = {sub["trajectory_id"]: sub for sub in document.get("subagent_trajectories", ())}
    refs = [
        (result.get("source_call_id"), ref["trajectory_id"])
        for step in document["steps"]
        for result in step.get("observation", {}).get("results", ())
        for ref in result.get("subagent_trajectory_ref", ())
    ]
    assert sorted(name for _, name in refs) == sorted(subs)
    inner = [(call_id, _tree(subs[name])) for call_id, name in refs]
    return document["agent"]["name"], document["steps"][0]["message"], sorted(inner)


def test_a_sub_agent_belongs_to_the_call_that_started_it_and_to_its_parent(researched: Trajectory) -> None:
    """`source_call_id` tells parallel agents apart.

    An agent of a sub-agent is in the sub-agent's trajectory.
    """
    rome, ulm = ("researcher", "Rome"), ("researcher", "Ulm")
    again = [("researcher", f"sum up {topic}", []) for topic in ("Rome", "Ulm")]
    reader = ("reader", "read Rome", [])

    tree = _tree(to_atif(researched))
    flat = {(call_id, inner[:2]) for call_id, inner in tree[2]}
    assert tree[:2] == ("agent", "Compare.")
    assert {("call_r", rome), ("call_u", ulm)} <= flat
    assert {(call_id, inner[:2]) for call_id, inner in tree[2] if inner[1].startswith("sum")} == {
        (call_id, one[:2]) for call_id, one in zip(("call_r", "call_u"), again, strict=True)
    }
    [of_rome] = [inner for _, inner in tree[2] if inner[:2] == rome]
    assert of_rome[2] == [("read_Rome", reader)]


def test_a_nested_agent_without_a_tool_belongs_to_its_parent(tmp_path: Path) -> None:
    """An agent that no tool started is placed by the block of its parent in which its own block began."""
    with TrajectoryRecorder(tmp_path / "run.json", task="nest") as recorder:
        _say(recorder, "q", "a")
        with recorder.agent("outer"):
            _say(recorder, "o", "b")
            with recorder.agent("inner"):
                _say(recorder, "i", "c")

    tree = _tree(to_atif(load(tmp_path / "run.json")))
    assert tree == ("agent", "q", [(None, ("outer", "o", [(None, ("inner", "i", []))]))])


def test_costs_of_nested_agents_count_once() -> None:
    """Each trajectory's total includes the costs of the trajectories in it, and no cost is counted twice."""
    paid = {"response": {"usage": {"cost": 1.0}}}
    outer, inner = ({"agent": name, "agent_id": name} for name in ("outer", "inner"))
    made = run(
        call(["q"], "a", **paid),
        call(["o"], "b", **outer, **paid),
        call(["i"], "c", **inner, parent_agent_id="outer", **paid),
    )

    document = to_atif(made)
    [sub] = document["subagent_trajectories"]
    [below] = sub["subagent_trajectories"]
    costs = [one["final_metrics"]["total_cost_usd"] for one in (document, sub, below)]
    assert costs == [3.0, 2.0, 1.0]


def _seconds(document: Payload) -> list[float]:
    times = [datetime.fromisoformat(step["timestamp"]) for step in document["steps"] if "timestamp" in step]
    return [(after - before).total_seconds() for before, after in itertools.pairwise(times)]


def test_steps_have_the_times_of_request_and_answer() -> None:
    """A question has the time of the request, and an answer the time of its end."""
    second = ["q", assistant(None, use("c1")), gave("c1", "r")]
    made = run(call(["q"], None, use("c1")), call(second, "done", duration_seconds=0.5))

    assert _seconds(to_atif(made)) == [0.25, 1.25]
    assert _seconds(to_atif(run(call(["q"], "a")))) == [0.25]


def test_the_duration_of_a_call_covers_all_its_attempts() -> None:
    """The answer has the time at which the last attempt ended, even if the document states only that attempt's
    duration.
    """
    times = ({"timestamp": f"2025-06-12T20:00:0{second}+00:00", "duration_seconds": 0.25} for second in (1, 2))
    tried = [{"number": number, **time} for number, time in enumerate(times)]

    assert _seconds(to_atif(run(call(["q"], "a", attempts=tried)))) == [1.25]


@pytest.mark.parametrize(
    ("interaction", "known"),
    [
        (call(["q"], "a", api=None, duration_seconds=None), [False, True]),
        (call(["q"], complete=False, duration_seconds=None) | {"response": {}}, [True, False]),
    ],
    ids=["by hand", "in flight"],
)
def test_an_unknown_time_is_absent(interaction: Payload, known: list[bool]) -> None:
    """A call recorded by hand has only the time of its answer, and an open call only that of its request. Neither takes
    0 s.
    """
    made = run(interaction)

    assert ["timestamp" in step for step in to_atif(made)["steps"]] == known
    [(_, document)] = to_atif_files(made, "run.json")
    assert _seconds(document) == []
