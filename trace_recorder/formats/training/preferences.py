"""Preference pairs from scored runs of one task: the better run is chosen, and the worse run is rejected.

Runs are compared if they began with the same request, that is, the same messages and tools. In each such group, the
best run is paired with every worse run. A run with a rewritten history is not one answer to one prompt. Such a run is
left out, and counted in the report of the view. So is a run with an answer that was cut off, incomplete or empty. A
fork begins with answers from a recording. These answers are part of the fork's prompt, so forks of a run at the same
call are compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from trace_recorder.figures.rewards import rewards_of
from trace_recorder.formats.format_writer import LeftOut, view
from trace_recorder.formats.left_out import REPLAYED, count_unsupported_contents
from trace_recorder.formats.training.branches import Branch, branches, fault_of_turn, tools_of
from trace_recorder.formats.training.trl import SUPPORTED, Row, messages_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, key_of_agent
from trace_recorder.values.trajectory import Trajectory

Score = Callable[[Trajectory], float | None]


@dataclass(frozen=True, slots=True)
class _ScoredRun:
    """A run with its score. The whole run counts as the answer to its first prompt."""

    score: float
    answer: list[Row]
    trajectory_id: str | None


@view
def preference_pairs(
    left_out: LeftOut,
    trajectories: Iterable[Trajectory],
    reward: str | Score,
    *,
    include_incomplete: bool = False,
) -> Iterator[Row]:
    """Yield pairs in TRL's form: `prompt`, `chosen`, `rejected`, `tools`, and the scores and ids of both runs.

    `reward` is the name of a recorded reward, or a function that scores a run. A run without the reward is left out. A
    run with an answer that was cut off, incomplete or empty is also left out, unless `include_incomplete` is True.
    """
    groups: dict[str, tuple[Row, list[_ScoredRun]]] = {}
    for trajectory in trajectories:
        if isinstance(reward, str):
            score = rewards_of(trajectory).get(reward)
        else:
            score = reward(trajectory)
        if score is None:
            left_out.add("runs without the reward")
            continue
        turns = turns_of(trajectory)
        branch = _only_branch(trajectory, turns, include_incomplete=include_incomplete)
        if branch is None:
            left_out.add(_why_no_branch(turns))
            continue
        faults = _faults_in(turns, branch)
        if REPLAYED in faults:
            left_out.add("runs with a replayed answer after a new answer")
            continue
        if faults and not include_incomplete:
            left_out.add("runs with an answer that was cut off, incomplete or empty")
            continue
        count_unsupported_contents(turns, left_out, SUPPORTED)
        request, answer = _split_before_first_answer(branch, left_out)
        if not request["prompt"]:
            left_out.add("runs without a prompt")
            continue
        group = groups.setdefault(json.dumps(request, sort_keys=True), (request, []))
        group[1].append(_ScoredRun(score, answer, trajectory.trajectory_id))
    for request, runs in groups.values():
        yield from _pairs(request, runs)


def _pairs(request: Row, runs: list[_ScoredRun]) -> Iterator[Row]:
    best = max(runs, key=lambda run: run.score)
    for worse in runs:
        if worse.score < best.score:
            yield {
                **request,
                "chosen": best.answer,
                "rejected": worse.answer,
                "chosen_score": best.score,
                "rejected_score": worse.score,
                "chosen_id": best.trajectory_id,
                "rejected_id": worse.trajectory_id,
            }


def _why_no_branch(turns: Sequence[Turn]) -> str:
    if turns and not any(turn.was_made for turn in turns):
        return "runs whose answers are all replayed"
    return "runs that are not one answer to one prompt"


def _faults_in(turns: Iterable[Turn], branch: Branch) -> set[str]:
    """Return the faults of the agent's answers that are not targets of the branch.

    Answers before the first answer that a model gave in this run are not considered.
    """
    agent = key_of_agent(branch.leaf.interaction)
    own = (turn for turn in turns if turn.answered and key_of_agent(turn.interaction) == agent)
    answers = (turn for turn in dropwhile(lambda turn: not turn.was_made, own) if turn not in branch.targets)
    return {fault for turn in answers if (fault := fault_of_turn(turn))}


def _only_branch(trajectory: Trajectory, turns: Sequence[Turn], *, include_incomplete: bool) -> Branch | None:
    """Return the only branch of the agent that began the run, or None if that agent has several branches.

    Only the agent's chain with the most turns is considered.
    """
    all_branches = branches(trajectory, turns, include_incomplete=include_incomplete)
    if not all_branches:
        return None
    first = min(all_branches, key=lambda branch: branch.turns[0].interaction.timestamp)
    agent = key_of_agent(first.leaf.interaction)
    own = [branch for branch in all_branches if key_of_agent(branch.leaf.interaction) == agent]
    [(start, _)] = Counter(turn.chain_start for branch in own for turn in branch.turns).most_common(1)
    main = [branch for branch in own if branch.leaf.chain_start is start]
    if len(main) != 1:
        return None
    return main[0]


def _split_before_first_answer(branch: Branch, left_out: LeftOut) -> tuple[Row, list[Row]]:
    lines = branch.lines()
    first = next(place for place, line in enumerate(lines) if line.turn and line.turn.was_made)
    messages, tools = messages_of(lines, left_out), tools_of(branch, left_out)
    return {"prompt": messages[:first], "tools": tools}, messages[first:]
