"""Rows of replays and forks: replayed answers are context, and no answer is trained on twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.formats.made import Payload, assistant, call, gave, run, use
from trace_recorder import Trajectory
from trace_recorder.formats.left_out import REPLAYED
from trace_recorder.formats.toolbrain.turns import to_turns
from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning
from trace_recorder.formats.training.preferences import preference_pairs
from trace_recorder.formats.training.trl import to_trl

LS = use("c1", command="ls")
GIVEN = {"replayed_from": {"trajectory_id": "parent", "interaction_id": "llm_1"}}
BY_HAND = {"replayed_from": {"trajectory_id": "parent", "interaction_id": "llm_1", "by_hand": True}}
Rows = list[Payload]


def tokens(prompt: list[int], sampled: list[int]) -> Payload:
    """Return a response with the token ids of its prompt and its answer."""
    return {"choices": [{"index": 0, "extra": {"token_ids": sampled}}], "extra": {"prompt_token_ids": prompt}}


def told(answer: str = "done", first: Payload = GIVEN, second: Payload | None = None, **root: Payload) -> Trajectory:
    """Record a fork at its second call.

    The first call, which asks for a tool, was replayed. By default the second was made.
    """
    question = ["q", assistant("look", LS), gave("c1", "a.py")]
    calls = (
        call(["q"], "look", LS, response=tokens([1], [2]), **first),
        call(question, answer, response=tokens([1, 2, 3], [4]), **(second or {})),
    )
    return run(*calls, **root)


def weights(trajectory: Trajectory, **options: Payload) -> Rows:
    """Return the weight of each answer in OpenAI's rows."""
    rows = to_openai_finetuning(trajectory, **options)
    return [
        {message["content"]: message["weight"] for message in row["messages"] if "weight" in message} for row in rows
    ]


def completions(trajectory: Trajectory, **options: Payload) -> Rows:
    """Return the roles of each prompt, and the text to train on."""
    rows = to_trl(trajectory, "prompt_completion", **options)
    return [("".join(one["role"][0] for one in row["prompt"]), row["completion"][0]["content"]) for row in rows]


def masked(trajectory: Trajectory, **options: Payload) -> Rows:
    return [(row["input_ids"], row["assistant_masks"]) for row in to_trl(trajectory, "tokens", **options)]


def texts(trajectory: Trajectory, **options: Payload) -> Rows:
    return [[message["content"] for message in row["messages"]] for row in to_trl(trajectory, **options)]


def turns(trajectory: Trajectory) -> Rows:
    """Return for each turn whether its prompt has the replayed answer, and its completion."""
    return [("look" in turn["prompt_for_model"], turn["model_completion"]) for turn in to_turns(trajectory)]


FORK: dict[Callable[..., Rows], Rows] = {
    weights: [{"look": 0, "done": 1}],
    completions: [("uat", "done")],
    masked: [([1, 2, 3, 4], [0, 0, 0, 1])],
    texts: [],
    turns: [(True, "done")],
}
"""The answers of a fork that each format trains on. Rows of messages cannot mask an answer, so they leave forks out."""


@pytest.mark.parametrize("first", [GIVEN, BY_HAND])
@pytest.mark.parametrize("rows", FORK)
def test_a_fork_is_trained_on_by_its_own_calls(rows: Callable[..., Rows], first: Payload) -> None:
    """An answer of the parent, or an answer that a person wrote, is context."""
    assert rows(told(first=first)) == FORK[rows]


@pytest.mark.parametrize("rows", FORK)
def test_a_replay_gives_no_rows(rows: Callable[..., Rows]) -> None:
    """The rows come from the run that the replay repeats."""
    assert rows(told(second=GIVEN)) == []


@pytest.mark.parametrize("rows", [weights, completions, masked, texts])
def test_incomplete_answers_can_be_included_and_replayed_ones_cannot(rows: Callable[..., Rows]) -> None:
    """`include_incomplete` includes faulty answers, but not replayed answers."""
    assert rows(told(), include_incomplete=True) == FORK[rows]
    assert rows(told(second=GIVEN), include_incomplete=True) == []


def test_a_made_call_of_a_replay_is_trained_on() -> None:
    """Replayed answers after the call are not part of the row."""
    asked = ["q", assistant("new"), "more?"]
    made = run(call(["q"], "new"), call(asked, "old", **GIVEN))

    assert weights(made) == [{"new": 1}]


@pytest.mark.parametrize("view", [to_openai_finetuning, to_trl, to_turns])
def test_replayed_calls_are_counted(view: Payload) -> None:
    """The report says how many calls no row trains on because they were replayed."""
    _, left_out = view.with_report(told(second=GIVEN))

    assert left_out[REPLAYED] == 2


def test_a_reward_is_given_every_turn() -> None:
    """A reward applies to every turn, whether its answer was replayed or not, because it judges the agent's acts."""
    assert [turn["model_completion"] for turn in to_turns(told(second=GIVEN), include_replayed=True)][1:] == ["done"]
    assert len(to_turns(told(), include_replayed=True)) == 2


def scored(answer: str, value: float, **more: Payload) -> Trajectory:
    return told(answer, rewards=[{"name": "tests", "value": value}], trajectory_id=answer, **more)


def test_forks_at_one_call_are_paired_after_their_replayed_answers() -> None:
    """Both forks have the same replayed answers, which are the prompt. The pair compares the agents' own answers."""
    [pair] = preference_pairs([scored("bad", 0.0), scored("good", 1.0)], "tests")

    assert [one["content"] for one in pair["prompt"]] == ["q", "look", "a.py"]
    assert [[one["content"] for one in pair[name]] for name in ("chosen", "rejected")] == [["good"], ["bad"]]


def test_runs_with_replayed_answers_make_no_other_pairs() -> None:
    """Neither a replay of a whole run, nor a run with a replayed answer after a new answer, makes a pair."""
    mixed = scored("mixed", 0.5, first={}, second=GIVEN)
    runs = [scored("replay", 0.0, second=GIVEN), mixed, scored("good", 1.0)]

    pairs, left_out = preference_pairs.with_report(runs, "tests")

    assert (list(pairs), dict(left_out)) == (
        [],
        {"runs whose answers are all replayed": 1, "runs with a replayed answer after a new answer": 1},
    )


def test_an_export_says_why_a_replay_has_no_rows(tmp_path: Path) -> None:
    """The message says that the run is a replay, and not that the run is empty."""
    (tmp_path / "again.json").write_text(json.dumps(told(second=GIVEN).to_document()), encoding="utf-8")

    result = invoke("export", tmp_path / "again.json", "-f", "openai", "-o", tmp_path / "rows.jsonl")

    assert "again.json: it has no rows, because its answers are replayed" in result.output
