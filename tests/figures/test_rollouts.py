"""Rollouts have the tokens that a server stated, each sampled token once, and say where a conversation drifts."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.counting import lines
from tests.formats.made import assistant, call, run
from tests.searching import seeds
from trace_recorder import Trajectory, load
from trace_recorder.figures.rollouts import Drift, SampledAnswer, sampled_rollout
from trace_recorder.views import to_atif, to_rollouts, to_trl, to_verifiers


class _Server:
    """A server of a model whose template writes a message as a mark and its words. It states what it sampled."""

    def __init__(self, chosen: random.Random) -> None:
        self.chosen = chosen
        self.stated: dict[str, tuple[list[int], list[list[int]]]] = {}
        """The ids of the prompt and of each answer, by interaction."""
        self.calls: list[dict[str, Any]] = []
        self.drifts: list[Drift | None] = []

    def ask(
        self, messages: list[Any], prompt: list[int], drift: Drift | None, choices: int = 1
    ) -> tuple[str, list[int]]:
        """Answer a request. Return the text and the ids of the first answer."""
        number = len(self.calls) + 1
        answers = [[self.chosen.randrange(1000) for _ in range(self.chosen.randint(1, 9))] for _ in range(choices)]
        self.stated[f"llm_{number}"] = prompt, answers
        made = []
        for index, ids in enumerate(answers):
            content = {"content": [{"token": str(one), "logprob": -one / 1000} for one in ids]}
            text = f"answer {number}.{index}"
            made.append({"index": index, "content": text, "extra": {"token_ids": ids, "logprobs": content}})
        response = {"choices": made, "extra": {"prompt_token_ids": prompt}}
        finish = "length" if self.chosen.random() < 0.1 else "stop"
        self.calls.append(call(messages, f"answer {number}.0", response={**response, "finish_reason": finish}))
        self.drifts.append(drift)
        return f"answer {number}.0", answers[0]


def _ids(chosen: random.Random) -> list[int]:
    return [chosen.randrange(1000, 2000) for _ in range(chosen.randint(1, 6))]


def _converse(server: _Server, name: str) -> None:
    """Make the calls of one agent: it continues, edits its history, is tokenised otherwise, and samples twice."""
    chosen = server.chosen
    messages: list[Any] = [f"{name} begins"]
    prompt = [*_ids(chosen), len(server.calls)]
    text, sampled = server.ask(messages, prompt, None)
    for turn in range(chosen.randint(0, 5)):
        what = chosen.random()
        messages = [*messages, assistant(text), f"{name} asks {turn}"]
        drift: Drift
        if what < 0.6:
            prompt, drift = [*prompt, *sampled, *_ids(chosen)], "clean"
        elif what < 0.8:
            prompt, drift = [*prompt, 3000 + turn, *sampled, *_ids(chosen)], "realigned"
        else:
            messages = [f"{name} summarises {turn}", *messages[1:]]
            prompt, drift = [2500, turn, *prompt[1:], *_ids(chosen)], "forked"
        text, sampled = server.ask(messages, prompt, drift, choices=chosen.choice([1, 1, 1, 2]))


def _generated(seed: int) -> tuple[Trajectory, _Server]:
    server = _Server(random.Random(seed))
    for agent in range(server.chosen.randint(1, 3)):
        _converse(server, f"agent {agent}")
    return run(*server.calls, trajectory_id=f"t{seed}"), server


@pytest.mark.parametrize("seed", seeds(40, 1000))
def test_a_rollout_has_what_the_server_stated(seed: int) -> None:
    """Each answer is trained once, after exactly the tokens of its prompt, with its log-probabilities."""
    trajectory, server = _generated(seed)
    [rollout] = to_rollouts([trajectory])
    trained: Counter[SampledAnswer] = Counter()
    for branch in rollout.branches:
        ends = [*accumulate(len(span.token_ids) for span in branch.spans)]
        for span, end in zip(branch.spans, ends, strict=True):
            prompt, answers = server.stated[span.answer.interaction_id]
            if span.is_sampled:
                answer = answers[span.answer.choice]
                assert branch.token_ids[:end] == prompt + answer
                assert branch.logprobs[end - len(answer) : end] == [-one / 1000 for one in answer]
                assert set(branch.interactions[end - len(answer) : end]) == {span.answer.interaction_id}
                trained[span.answer] += branch.mask[end - 1]

    every = [SampledAnswer(name, n) for name, (_, answers) in server.stated.items() for n in range(len(answers))]
    assert trained == Counter(every)
    assert rollout.sampled_count == sum(len(one) for _, answers in server.stated.values() for one in answers)
    assert [one.drift for one in rollout.calls.values()] == server.drifts
    assert rollout.without_ids == 0


@pytest.mark.parametrize("seed", seeds(10, 1000))
def test_rows_train_on_the_whole_first_answers(seed: int) -> None:
    """The rows of TRL mask cut answers, and answers that the agent did not continue."""
    trajectory, server = _generated(seed)
    rows = to_trl(trajectory, "tokens")
    whole = [one.interaction_id for one in trajectory.llm_interactions if one.response.finish_reason == "stop"]

    assert sum(sum(row["assistant_masks"]) for row in rows) == sum(len(server.stated[name][1][0]) for name in whole)


def test_a_rollout_says_where_it_comes_from() -> None:
    """The run, its group and attempt, its rewards and those of its steps, and how each call was sampled."""
    sampled = {"choices": [{"index": 0, "content": "a", "extra": {"token_ids": [3]}}]}
    extra = {"prompt_token_ids": [1, 2], "metadata": {"weight_version": "7"}}
    asked = call(
        ["q"], "a", response={**sampled, "extra": extra}, request={"parameters": {"temperature": 0.5, "stream": True}}
    )
    step = {"step_number": 1, "timestamp": "2025-06-12T20:00:01+00:00", "state": "asks", "interaction_ids": ["llm_1"]}
    rewards = [{"name": "tests", "value": 1.0}, {"name": "brief", "value": 0.5, "step_number": 1}]
    made = run(asked, call(["no ids"], "b"), agent_steps=[step], rewards=rewards, metadata={"group": "g", "attempt": 2})
    rollout = sampled_rollout(made)
    [about] = rollout.calls.values()

    assert (rollout.trajectory_id, rollout.task, rollout.group, rollout.attempt) == ("t1", "try", "g", "2")
    assert (rollout.rewards, about.rewards, rollout.without_ids) == ({"tests": 1.0}, {"brief": 0.5}, 1)
    assert (about.sampling, [one.version for one in about.weight_versions]) == ({"temperature": 0.5}, ["7"])


def test_a_call_of_a_long_run_costs_what_its_tokens_cost() -> None:
    """Twice as many calls, each with other tokens, cost at most two and a half times as many lines."""

    def made(count: int) -> Trajectory:
        responses = [
            {
                "choices": [{"index": 0, "content": "a", "extra": {"token_ids": [n]}}],
                "extra": {"prompt_token_ids": [5, n]},
            }
            for n in range(count)
        ]
        return run(*(call([f"q{n}"], "a", response=response) for n, response in enumerate(responses)))

    runs = [made(200), made(400)]
    short, long = (lines(partial(sampled_rollout, one)) for one in runs)
    assert long < 2.5 * short


@pytest.mark.parametrize("seed", seeds(10, 1000))
def test_verifiers_traces_have_the_rollout(seed: int, tmp_path: Path) -> None:
    """A written trace has the branches of the rollout, and is read back with the same tokens."""
    trajectory, server = _generated(seed)
    [episode] = to_verifiers(trajectory)
    (tmp_path / "traces.jsonl").write_text(json.dumps(episode))
    written, read = sampled_rollout(trajectory), sampled_rollout(load(tmp_path / "traces.jsonl"))
    nodes = episode["traces"][0]["nodes"]

    def path_of(node: dict[str, Any]) -> list[int]:
        before = [] if node["parent"] is None else path_of(nodes[node["parent"]])
        return [*before, *node["token_ids"]]

    stated = [prompt + answer for prompt, answers in server.stated.values() for answer in answers]
    assert sorted(path_of(node) for node in nodes if node["sampled"]) == sorted(stated)
    trained = [
        Counter((*zip(one.token_ids, one.mask, one.logprobs, strict=True),) for one in branches)
        for branches in (written.branches, read.branches)
    ]
    assert trained[0] == trained[1]
    assert sum(sum(node["mask"]) for node in nodes) == written.sampled_count


@pytest.mark.parametrize("seed", seeds(10, 1000))
def test_atif_has_the_tokens_of_each_call(seed: int) -> None:
    """The metrics of a step have the ids of its prompt, and those of its first answer with their log-probabilities."""
    trajectory, server = _generated(seed)

    def metrics_in(document: dict[str, Any]) -> list[dict[str, Any]]:
        inner = [one for below in document.get("subagent_trajectories") or () for one in metrics_in(below)]
        return [step["metrics"] for step in document["steps"] if step.get("metrics")] + inner

    names = ("prompt_token_ids", "completion_token_ids", "logprobs")
    written = sorted([one[name] for name in names] for one in metrics_in(to_atif(trajectory)))
    assert written == sorted(
        [prompt, first, [-one / 1000 for one in first]] for prompt, (first, *_) in server.stated.values()
    )


def test_answers_of_a_recording_are_context() -> None:
    """The run that sampled the tokens of a replayed answer trains on them, so a replay or a fork does not."""
    responses = [
        {"choices": [{"index": 0, "content": "a", "extra": {"token_ids": said}}], "extra": {"prompt_token_ids": prompt}}
        for prompt, said in (([1, 2], [3]), ([1, 2, 3, 4], [5]))
    ]
    replayed = call(["q"], "a", response=responses[0], replayed_from={"trajectory_id": "t0", "interaction_id": "llm_1"})
    made = run(replayed, call(["q", assistant("a"), "?"], "b", response=responses[1]))
    [branch] = sampled_rollout(made).branches
    [episode] = to_verifiers(made)

    assert (branch.token_ids, branch.mask) == ([1, 2, 3, 4, 5], [0, 0, 0, 0, 1])
    assert [node["mask"] for node in episode["traces"][0]["nodes"] if node["token_ids"]] == [[False] * 3, [False, True]]
