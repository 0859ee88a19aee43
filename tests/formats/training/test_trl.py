"""Rows for TRL, and preference pairs. The readers TRL and datasets are in `tests/readers/check_trl.py`."""

from __future__ import annotations

from collections.abc import Mapping

from tests.formats.made import Payload, assistant, call, gave, run, system, use
from trace_recorder import Trajectory
from trace_recorder.formats.training.preferences import preference_pairs
from trace_recorder.formats.training.trl import to_trl

LS = use("c1", command="ls")
FUNCTION = {"name": "bash", "arguments": {"command": "ls"}}


def sampled(prompt: list[int], said: list[int], **more: Payload) -> Payload:
    """Return a response with the sampled ids, as vLLM gives them, and their log-probabilities."""
    logprobs = {"content": [{"token": str(one), "logprob": -one / 10} for one in said]}
    choice = {"index": 0, "content": "x", "extra": {"token_ids": said, "logprobs": logprobs}}
    return {"choices": [choice], "extra": {"prompt_token_ids": prompt}, **more}


def test_a_row_has_messages_as_chat_templates_expect_them() -> None:
    """Arguments are an object, a tool result has the tool's name, and thoughts have their own member."""
    first = call(["q"], None, LS, response={"reasoning": "so"})
    made = run(first, call(["q", assistant(None, LS), gave("c1", "a.py")], "done"))

    assert to_trl(made) == [
        {
            "messages": [
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": "",
                    "reasoning_content": "so",
                    "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
                },
                {"role": "tool", "content": "a.py", "name": "bash", "tool_call_id": "c1"},
                {"role": "assistant", "content": "done"},
            ],
            "tools": None,
            "turns": [
                {"message": 1, "interaction_id": "llm_1", "new": True, "model": "m-1", "finish_reason": "stop"},
                {"message": 3, "interaction_id": "llm_2", "new": True, "model": "m-1", "finish_reason": "stop"},
            ],
            "trajectory_id": "t1",
            "rewards": [],
            "group": None,
            "attempt": None,
        }
    ]


def test_all_rows_have_the_same_columns(trajectories: Mapping[str, Trajectory]) -> None:
    """`datasets` takes the columns of the first row, and would lose other columns, such as tools and rewards."""
    rows = [row for trajectory in trajectories.values() for row in to_trl(trajectory)]

    assert {tuple(row) for row in rows} == {
        ("messages", "tools", "turns", "trajectory_id", "rewards", "group", "attempt")
    }
    assert [row["rewards"] for row in rows if row["rewards"]] == [[{"name": "correct", "value": 1.0}]] * 2


def test_a_prompt_ends_before_the_first_new_answer() -> None:
    """If an earlier row trains on the beginning of a row, only the rest is the completion."""
    made = run(call(["q"], "a"), call(["q", assistant("a"), "x?"], "x"), call(["q", assistant("a"), "y?"], "y"))

    rows = [
        ([one["content"] for one in row["prompt"]], [one["content"] for one in row["completion"]])
        for row in to_trl(made, "prompt_completion")
    ]
    assert rows == [(["q"], ["a", "x?", "x"]), (["q", "a", "y?"], ["y"])]


def test_a_prompt_that_ends_with_instructions_is_left_out_and_counted() -> None:
    """TRL cannot render a prompt that ends with instructions."""
    rows, left_out = to_trl.with_report(run(call([system("s")], "a")), "prompt_completion")

    assert rows == []
    assert left_out["rows whose prompt ends with instructions, which TRL refuses"] == 1


def test_rows_have_the_sampled_token_ids() -> None:
    """If each prompt begins with exactly the ids of the call before it, there is one row, with a mask."""
    made = run(
        call(["q"], "x", response=sampled([1, 2], [3])),
        call(["q", assistant("x"), "?"], "x", response=sampled([1, 2, 3, 4], [5, 6])),
    )

    assert to_trl(made, "tokens") == [
        {
            "input_ids": [1, 2, 3, 4, 5, 6],
            "assistant_masks": [0, 0, 1, 0, 1, 1],
            "logprobs": [None, None, -0.3, None, -0.5, -0.6],
            "interactions": ["llm_1", "llm_2"],
            "weight_versions": [[], []],
            "trajectory_id": "t1",
            "rewards": [],
            "group": None,
            "attempt": None,
        }
    ]


def test_a_prompt_with_other_token_ids_begins_a_new_row() -> None:
    """If a prompt repeats a text with ids other than the sampled ones, its call has its own row. No text is tokenised
    again.
    """
    made = run(
        call(["q"], "x", response=sampled([1, 2], [3])),
        call(["q", assistant("x"), "?"], "x", response=sampled([1, 2, 30, 31, 4], [5])),
    )

    assert [(row["input_ids"], row["assistant_masks"]) for row in to_trl(made, "tokens")] == [
        ([1, 2, 3], [0, 0, 1]),
        ([1, 2, 30, 31, 4, 5], [0, 0, 0, 0, 0, 1]),
    ]


def test_calls_without_token_ids_are_counted() -> None:
    """Text alone gives no row of tokens."""
    rows, left_out = to_trl.with_report(run(call(["q"], "a")), "tokens")

    assert rows == []
    assert left_out["calls whose token ids were not recorded"] == 1


def test_a_row_without_a_prompt_is_left_out() -> None:
    """An agent that records by hand may give no prompt, and TRL cannot read a row or a pair without a prompt."""
    runs = [run(call([], answer), trajectory_id=answer) for answer in ("a", "bb")]

    assert to_trl.with_report(runs[0], "prompt_completion") == ([], {"rows without a prompt, which TRL refuses": 1})
    pairs, left_out = preference_pairs.with_report(runs, lambda one: len(one.trajectory_id or ""))
    assert (list(pairs), left_out) == ([], {"runs without a prompt": 2})


def scored(answer: str, value: float | None, identity: str = "t") -> Trajectory:
    """Return a run of the same task, with a reward."""
    rewards = [] if value is None else [{"name": "tests", "value": value}]
    return run(call([system("s"), "q"], answer), rewards=rewards, trajectory_id=identity)


def test_the_best_run_is_preferred_to_each_worse_run() -> None:
    """Pairs have the same prompt. Equally good runs make no pair."""
    runs = [scored("bad", 0.0, "a"), scored("good", 1.0, "b"), scored("fair", 0.5, "c"), scored("also good", 1.0, "d")]

    pairs = [
        (pair["chosen"][0]["content"], pair["rejected"][0]["content"], pair["chosen_score"], pair["rejected_score"])
        for pair in preference_pairs(runs, "tests")
    ]
    assert pairs == [("good", "bad", 1.0, 0.0), ("good", "fair", 1.0, 0.5)]


def test_a_pair_has_the_prompt_once() -> None:
    """The pair has TRL's form, with the ids of both runs."""
    [pair] = preference_pairs([scored("bad", 0.0, "a"), scored("good", 1.0, "b")], "tests")

    assert pair == {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
        "tools": None,
        "chosen": [{"role": "assistant", "content": "good"}],
        "rejected": [{"role": "assistant", "content": "bad"}],
        "chosen_score": 1.0,
        "rejected_score": 0.0,
        "chosen_id": "b",
        "rejected_id": "a",
    }


def test_runs_that_cannot_be_paired_are_counted() -> None:
    """A function may compute the rewards. Runs without a reward, rewritten histories, and single runs make no pair."""
    rewritten = run(call(["q"], "long"), call(["q", assistant("short"), "?"], "no"))
    other = run(call(["another"], "x"))

    def length(trajectory: Trajectory) -> float | None:
        response = trajectory.llm_interactions[0].response
        return float(len(response.content or "")) if response and response.content != "bad" else None

    runs = [scored("good", None), scored("bad", None), rewritten, other]
    pairs, left_out = preference_pairs.with_report(runs, length)
    assert list(pairs) == []
    assert left_out == {"runs without the reward": 1, "runs that are not one answer to one prompt": 1}
