"""The Hierarchy: cumulative steps, and the counts over a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from trace_recorder import Trajectory
from trace_recorder.formats.hierarchy.writing import content_hash, to_hierarchy
from trace_recorder.formats.hierarchy.writing_steps import Cut
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import LLMResponse
from trace_recorder.values.trajectory import Reward

Trajectories = Mapping[str, Trajectory]
CUTS: dict[str, tuple[list[int], list[int]]] = {
    "tools": ([6, 10], [2, 4, 5, 6, 9, 10]),
    "thinking": ([6], [2, 4, 5, 6]),
    "code_agent": ([3, 5], [2, 3, 5]),
    "compacted": ([5, 5], [2, 4, 5, 4, 5]),
    "sub_agents": ([4, 5], [2, 1, 3, 4, 4, 5]),
    "streamed": ([2, 2], [1, 2, 2]),
    "interrupted": ([4], [2, 4]),
    "failed": ([2], [2]),
    "damaged": ([2], [2]),
    "empty": ([], []),
}
"""How many messages each step of a run has, cut by turn and by message."""


@pytest.mark.parametrize("run", CUTS)
def test_steps_are_cumulative(trajectories: Trajectories, run: str) -> None:
    """Each step has the model's prompt and its answer, cut by exchange or after each decision."""
    lengths = tuple(
        [len(step["messages"]) for step in to_hierarchy(trajectories[run], cut)["steps"]] for cut in ("turn", "message")
    )

    assert lengths == CUTS[run]


def test_each_step_begins_with_the_step_before(trajectories: Trajectories) -> None:
    """Within one conversation the messages of a step begin with those of the step before."""
    steps = to_hierarchy(trajectories["tools"], "message")["steps"]

    assert all(after["messages"][: len(before["messages"])] == before["messages"] for before, after in pairwise(steps))


def test_a_step_has_its_turn_and_agent(trajectories: Trajectories) -> None:
    """A step has its turn, its agent, and the interactions that are new in it."""
    infos = [step["info"] for step in to_hierarchy(trajectories["tools"])["steps"]]

    assert infos == [
        {"turn": 1, "agent": None, "interaction_ids": ["llm_1", "llm_2"], "step_numbers": [1, 2]},
        {"turn": 2, "agent": None, "interaction_ids": ["llm_3", "llm_4"], "step_numbers": [3, 4]},
    ]


def test_a_tool_message_has_its_call(trajectories: Trajectories) -> None:
    """The message has the call's name and arguments, the tool's object, and its failure."""
    own, failed = (_messages(trajectories[run]) for run in ("own_steps", "thinking"))

    assert (own[3]["content"], own[3]["tool_response"]) == (
        "7 °C …",
        _response("call_1", "weather", {"city": "Ulm"}, {"celsius": 7, "wind": [1, 2]}),
    )
    assert failed[4]["tool_response"] == _response("toolu_2", "locate", {}, "no GPS", error="no GPS")


def _messages(trajectory: Trajectory) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = to_hierarchy(trajectory)["steps"][-1]["messages"]
    return messages


def _response(identity: str, name: str, arguments: Any, response: Any, error: str | None = None) -> dict[str, Any]:
    answer = {"id": identity, "name": name, "arguments": arguments, "response": response}
    return {**answer, "error": error, "metadata": None}


def test_an_answer_has_its_usage_and_thinking(trajectories: Trajectories) -> None:
    """Tokens have OpenAI's names and counts: Anthropic's cached tokens are added to the input."""
    answer = _messages(trajectories["thinking"])[2]

    assert (answer["usage"], answer["finish_reason"], answer["reasoning"]) == (
        {
            "prompt_tokens": 50,
            "completion_tokens": 9,
            "total_tokens": 59,
            "cache_read_tokens": 20,
            "cache_creation_tokens": 0,
        },
        "tool_use",
        "A red pixel.",
    )


def test_tools_are_defined_on_the_first_message(trajectories: Trajectories) -> None:
    """The definitions are where the tools are first offered, as in the SDK, and are not repeated."""
    defined = [message["tool_definitions"] for message in _messages(trajectories["thinking"])]

    assert defined[0] == [
        {"name": name, "description": name, "parameters": {"type": "object"}} for name in ("search", "locate")
    ]
    assert defined[1:] == [None] * 5


def test_rewards_of_the_run_and_of_steps_are_aggregated(trajectories: Trajectories) -> None:
    """The run's rewards are combined by weight. A step has the reward that was earned in it."""
    run = replace(trajectories["tools"], rewards=(*trajectories["tools"].rewards, Reward("fast", 0.25, 1.0)))
    tree = to_hierarchy(run)

    assert (tree["reward"]["aggregated_value"], tree["metrics"]["aggregated_reward"]) == (0.75, 0.75)
    assert [one["name"] for one in tree["reward"]["components"]] == ["correct", "fast"]
    assert [step["reward"] and step["reward"]["aggregated_value"] for step in tree["steps"]] == [0.5, None]


def test_a_reward_that_is_not_a_number_is_kept(trajectories: Trajectories) -> None:
    """Such a reward is kept as recorded, and does not count in the mean."""
    rewards = (Reward("odd", {"__type__": "float", "repr": "nan"}), Reward("even", 1.0))  # type: ignore[arg-type]
    reward = to_hierarchy(Trajectory(rewards=rewards))["reward"]

    assert reward["aggregated_value"] == 1.0
    assert reward["components"][0]["metadata"] == {"recorded": {"__type__": "float", "repr": "nan"}}


def test_metrics_count_tools(trajectories: Trajectories) -> None:
    """The metrics count tool calls, failures, and calls without a result."""
    thinking, cut_off = (to_hierarchy(trajectories[run])["metrics"] for run in ("thinking", "interrupted"))

    assert thinking == {
        "steps": 1,
        "tokens_generated": 18,
        "aggregated_reward": None,
        "num_tool_calls": 2,
        "num_tool_failures": 1,
        "num_tool_response_none": 0,
        "tool_error_rate": 0.5,
    }
    assert (cut_off["num_tool_calls"], cut_off["num_tool_response_none"]) == (1, 0)


def test_times_are_stated_for_models_tools_and_the_run(trajectories: Trajectories) -> None:
    """The calls took 1.5 seconds each. The tools have no times, so the time between two calls does not count as
    theirs.
    """
    execution = to_hierarchy(trajectories["sub_agents"])["execution_metrics"]

    assert execution == {"env_time": None, "llm_time": 6.0, "total_time": 12.5, "termination_reason": "ENV_DONE"}


COMPLETED = Trajectory(status="completed", max_steps=None)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (COMPLETED, "ENV_DONE"),
        (replace(COMPLETED, status="running"), "NONE"),
        (replace(COMPLETED, status="interrupted"), "NONE"),
        (replace(COMPLETED, status="failed", error=ErrorInfo("KeyError", "x")), "ERROR"),
        (replace(COMPLETED, status="failed", error=ErrorInfo("APITimeoutError", "x")), "TIMEOUT"),
    ],
)
def test_the_reason_for_the_end_of_a_run_is_stated(run: Trajectory, reason: str) -> None:
    """The reason is the format's word for the run's status and error."""
    assert to_hierarchy(run)["execution_metrics"]["termination_reason"] == reason


def test_a_run_may_be_marked_as_cut_off(trajectories: Trajectories) -> None:
    """A run is cut off if it used all steps without success, or if its last answer was cut off by length."""
    few = replace(trajectories["own_steps"], success=None)
    [*before, last] = trajectories["react"].llm_interactions
    short = structs.replace(last, response=LLMResponse("Thou", finish_reason="length"))

    reasons = [
        to_hierarchy(run)["execution_metrics"]["termination_reason"]
        for run in (few, replace(trajectories["react"], llm_interactions=[*before, short]))
    ]
    assert reasons == ["MAX_STEPS", "TRUNCATION"]


def test_a_failed_run_has_its_error(trajectories: Trajectories) -> None:
    """The error has its class and its message."""
    assert to_hierarchy(trajectories["failed"])["error"] == "BadRequestError: Error code: 400 - too long"


def test_the_task_has_its_source_and_id(trajectories: Trajectories) -> None:
    """The task's id has the source and the run. Its metadata counts turns, steps and tokens."""
    run = trajectories["tools"]

    assert to_hierarchy(run, data_source="mine")["task"] == {
        "id": f"mine:{run.trajectory_id}",
        "data_source": "mine",
        "conversation_id": run.trajectory_id,
        "num_turns": 2,
        "num_steps": 2,
        "total_tokens": 120,
        "total_cost": None,
    }


def test_the_hash_covers_the_exchanged_content(trajectories: Trajectories) -> None:
    """Nulls and `idx` do not change the hash; a changed word does."""
    assert content_hash({"b": 1, "a": None, "idx": 3}) == content_hash({"b": 1})
    assert content_hash({"b": 1}) != content_hash({"b": 2})


def test_the_hash_is_that_of_the_whole_json() -> None:
    """The JSON is made in pieces, and the JSON of a message that several steps share is made once."""
    message = {"role": "user", "content": "ö", "tool_calls": [None], "usage": None, "idx": 1}
    steps = [
        {"messages": [message]},
        {"messages": [message, {"role": "tool"}], "info": {}, "reward": [], "b": {"c": None}},
    ]
    shown = '{"content":"ö","role":"user","tool_calls":[null]}'
    second = f'{{"b":{{}},"info":{{}},"messages":[{shown},{{"role":"tool"}}],"reward":[]}}'
    text = f'{{"steps":[{{"messages":[{shown}]}},{second}]}}'

    assert content_hash({"steps": steps, "error": None}) == sha256(text.encode()).hexdigest()


def test_an_unknown_cut_is_refused(trajectories: Trajectories) -> None:
    """`to_hierarchy` raises an error for a cut that is neither "turn" nor "message"."""
    cut: Cut = "step"  # type: ignore[assignment]

    with pytest.raises(ValueError, match='must be "turn" or "message"'):
        to_hierarchy(trajectories["tools"], cut)
