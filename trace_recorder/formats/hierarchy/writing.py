"""The Hierarchy: a run as a tree of Trajectory, Steps and Messages, in the form of `trajectory_sdk.primitives` (0.5.3).

The tree consists of plain dicts, one for each dataclass of the SDK, with all fields. Steps are cumulative: each has
every message up to its own end. `info.turn` is the number of the step's exchange between the user and the agent.
Recorded facts fill members that the SDK leaves empty: times, failures, and the arguments of tool responses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from trace_recorder.clocks import seconds_between
from trace_recorder.figures.call_figures import made_calls, sum_known
from trace_recorder.figures.content.finish_reasons import ending_of
from trace_recorder.figures.content.kinds import THOUGHTS
from trace_recorder.figures.conversations.steps_of_turns import AnsweredTurn, answered_turns
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.hierarchy.own_members import StepInfo, Termination
from trace_recorder.formats.hierarchy.writing_steps import Cut, Snapshot, snapshots
from trace_recorder.formats.left_out import (
    CHOICES,
    REWARDS,
    ContentSupport,
    FormatSupport,
    count_all_but,
    count_changed_histories,
    count_unsupported_contents,
)
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import Counts, counts_of
from trace_recorder.values.trajectory import Reward, Trajectory

SOURCE = "trace_recorder"
_SUPPORTED: FormatSupport = {"answers": ContentSupport.of(THOUGHTS)}
"""Parts that are not text, and members next to the text, are in `metadata`.

Such parts and members count as left out.
"""


@view
def to_hierarchy(
    left_out: LeftOut, trajectory: Trajectory, cut: Cut = "turn", data_source: str = SOURCE
) -> dict[str, Payload]:
    """Return a run as the tree of a `trajectory_sdk` Trajectory.

    `cut` chooses the steps: "turn" makes one step of each exchange between a user and the agent, and "message" cuts as
    the SDK itself does. A run without messages has no steps. Raises ValueError for any other cut.
    """
    if cut not in {"turn", "message"}:
        raise ValueError(f'cut is {cut!r}, and must be "turn" or "message"')
    count_all_but(trajectory, left_out, CHOICES, REWARDS)
    turns = answered_turns(trajectory)
    count_unsupported_contents((answered.turn for answered in turns), left_out, _SUPPORTED)
    count_changed_histories((answered.turn for answered in turns), left_out, "edits")
    all_snapshots = snapshots(turns, cut)
    steps = [_step(snapshot, trajectory.rewards) for snapshot in all_snapshots]
    reward = _reward([reward for reward in trajectory.rewards if reward.step_number is None])
    tree: dict[str, Payload] = {
        "task": _task(trajectory, all_snapshots, data_source),
        "steps": steps,
        "reward": reward,
        "metrics": _metrics(trajectory, all_snapshots, reward),
        "execution_metrics": _execution(trajectory, turns),
        "reference_trajectory": None,
        "telemetry": None,
        "idx": None,
        "error": None,
        "trace_id": None,
        "model_id": trajectory.model,
    }
    error = trajectory.error and f"{trajectory.error.type}: {trajectory.error.message}"
    return tree | {"telemetry": _telemetry(tree), "error": error}


def content_hash(tree: Payload) -> str:
    """Return the SHA-256 of a tree's canonical JSON, as the SDK does: names sorted, without nulls and `idx`.

    The JSON is made in pieces, because the steps of a long run have gigabytes of messages.
    """
    digest = hashlib.sha256()
    for piece in _canonical_pieces(tree, 0, {}):
        digest.update(piece)
    return digest.hexdigest()


_MESSAGE_LEVEL = 4
"""The depth of a step's messages in a tree."""


def _canonical_pieces(value: Payload, level: int, messages: dict[int, bytes]) -> Iterator[bytes]:
    """Yield the canonical JSON of a value at a depth of the tree.

    `messages` has the JSON of each message by the `id` of its object, because many steps have the same message.
    """
    if level == _MESSAGE_LEVEL:
        if id(value) not in messages:
            messages[id(value)] = _canonical_json(_all_hashed(value))
        yield messages[id(value)]
    elif isinstance(value, dict):
        before = b""
        yield b"{"
        for name, member in sorted(_hashed(value).items()):
            yield before + _canonical_json(name) + b":"
            yield from _canonical_pieces(member, level + 1, messages)
            before = b","
        yield b"}"
    elif isinstance(value, list):
        before = b""
        yield b"["
        for element in value:
            yield before
            yield from _canonical_pieces(element, level + 1, messages)
            before = b","
        yield b"]"
    else:
        yield _canonical_json(value)


def _hashed(members: dict[str, Payload]) -> dict[str, Payload]:
    """Return the members of an object that are hashed."""
    return {name: member for name, member in members.items() if name != "idx" and member is not None}


def _all_hashed(value: Payload) -> Payload:
    """Return a copy of a value, in which all objects have only their members that are hashed."""
    if isinstance(value, dict):
        return {name: _all_hashed(member) for name, member in _hashed(value).items()}
    if isinstance(value, list):
        return [*map(_all_hashed, value)]
    return value


def _canonical_json(value: Payload) -> bytes:
    return _write_json(value).encode("utf-8", "surrogatepass")


_write_json = make_json_writer(",", ":", sort_keys=True)


def _task(trajectory: Trajectory, all_snapshots: Sequence[Snapshot], data_source: str) -> dict[str, Payload]:
    name, identity = trajectory.trajectory_id, None
    if name:
        identity = f"{data_source}:{name}"
    return {
        "id": identity,
        "data_source": data_source,
        "conversation_id": name,
        "num_turns": len({snapshot.exchange for snapshot in all_snapshots}),
        "num_steps": len(all_snapshots),
        "total_tokens": sum_known(counts.total for counts in _token_counts(trajectory)),
        "total_cost": trajectory.metrics.get("cost"),
    }


def _step(snapshot: Snapshot, rewards: Sequence[Reward]) -> dict[str, Payload]:
    turns = {line.turn.turn: line.turn for line in snapshot.new if line.after_prompt}.values()
    last = snapshot.new[-1].turn.interaction
    steps = [turn.step.step_number for turn in turns if turn.step is not None]
    numbers = sorted({number for number in steps if isinstance(number, int | float)})
    info = StepInfo(
        turn=snapshot.exchange,
        agent=last.agent,
        agent_id=last.agent_id,
        interaction_ids=[turn.interaction.interaction_id for turn in turns],
        step_numbers=numbers,
    )
    if last.agent_id is None:
        del info["agent_id"]
    return {
        "messages": [line.message for line in snapshot.lines],
        "reward": _reward([reward for reward in rewards if reward.step_number in numbers]),
        "info": info,
        "trainable_status": "not_trainable",
    }


def _reward(rewards: Sequence[Reward]) -> dict[str, Payload] | None:
    """Combine rewards into one reward. The combined value is the weighted mean of the rewards that are numbers."""
    if not rewards:
        return None
    valued = [
        reward for reward in rewards if isinstance(reward.value, int | float) and isinstance(reward.weight, int | float)
    ]
    weight, mean = sum(reward.weight for reward in valued), None
    if weight:
        mean = sum(reward.value * reward.weight for reward in valued) / weight
    return {
        "aggregated_value": mean,
        "aggregation_method": "weighted_mean",
        "components": [_component(reward, is_number=reward in valued) for reward in rewards],
    }


def _component(reward: Reward, *, is_number: bool) -> dict[str, Payload]:
    component: dict[str, Payload] = {
        "name": reward.name,
        "value": None,
        "scaled_value": None,
        "explanation": reward.explanation,
        "weight": reward.weight,
        "range": None,
        "metadata": None,
    }
    if is_number:
        component["value"] = reward.value
    else:
        component["metadata"] = {"recorded": reward.value}
    return component


def _metrics(
    trajectory: Trajectory, all_snapshots: Sequence[Snapshot], reward: dict[str, Payload] | None
) -> dict[str, Payload]:
    return {
        "steps": len(all_snapshots),
        "tokens_generated": sum_known(counts.completion for counts in _token_counts(trajectory)),
        "aggregated_reward": reward and reward["aggregated_value"],
        **_tool_metrics([line.message for snapshot in all_snapshots for line in snapshot.new]),
    }


def _tool_metrics(messages: Sequence[Mapping[str, Payload]]) -> dict[str, Payload]:
    calls = sum(len(message["tool_calls"] or ()) for message in messages if message["role"] == "assistant")
    responses = [message["tool_response"] for message in messages if message["tool_response"] is not None]
    failures = sum(response["error"] is not None for response in responses)
    error_rate = 0.0
    if calls:
        error_rate = failures / calls
    return {
        "num_tool_calls": calls,
        "num_tool_failures": failures,
        "num_tool_response_none": max(0, calls - len(responses)),
        "tool_error_rate": error_rate,
    }


def _token_counts(trajectory: Trajectory) -> list[Counts]:
    all_counts = map(counts_of, made_calls(trajectory.llm_interactions))
    return [counts for counts in all_counts if counts is not None]


def _execution(trajectory: Trajectory, turns: Sequence[AnsweredTurn]) -> dict[str, Payload]:
    """Return the seconds of tools, of models and of the whole run, and why the run ended."""
    total = trajectory.execution_time
    if total is None:
        total = seconds_between(trajectory.start_time, trajectory.end_time)
    results = (result for step in trajectory.agent_steps for result in step.tool_results if not result.replayed)
    return {
        "env_time": sum_known(result.duration_seconds for result in results),
        "llm_time": sum_known(call.duration_seconds for call in made_calls(trajectory.llm_interactions)),
        "total_time": total,
        "termination_reason": _termination(trajectory, turns),
    }


def _termination(trajectory: Trajectory, turns: Sequence[AnsweredTurn]) -> Termination:
    if trajectory.status == "failed":
        if trajectory.error and "timeout" in trajectory.error.type.lower():
            return "TIMEOUT"
        return "ERROR"
    if trajectory.status != "completed":
        return "NONE"
    if trajectory.max_steps and len(trajectory.agent_steps) >= trajectory.max_steps and not trajectory.success:
        return "MAX_STEPS"
    if turns and ending_of(turns[-1].response.finish_reason) == "length":
        return "TRUNCATION"
    return "ENV_DONE"


def _telemetry(tree: dict[str, Payload]) -> dict[str, Payload]:
    """Return the source of the run, and a hash of its messages and result. Copies of a run have the same hash."""
    source, name = tree["task"]["data_source"], tree["task"]["conversation_id"]
    digest = content_hash(tree)
    data = {"conversation_id": name, "content_hash": digest, "idempotency_key": f"{source}:{name}:{digest}"}
    return {"source": source, "data": data}
