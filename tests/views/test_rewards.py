"""Reward functions over saved runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.views.made import call, run
from trace_recorder import Trajectory
from trace_recorder.views.rewards import is_batch, reward_function, score, score_batch

RUN = run(call(["q"], "a"))


def frugal(trajectory: Trajectory) -> float:
    return 1.0 / len(trajectory.llm_interactions)


def annotated(run: Trajectory, wanted: int = 1) -> bool:
    return len(run.llm_interactions) == wanted


def undecided(trajectory: Trajectory) -> None:
    return None


def endless(trajectory: Trajectory) -> float:
    return math.inf


def ranked(traces: list[list[dict[str, object]]], **kwargs: object) -> list[float]:
    return [len(trace) / max(map(len, traces)) for trace in traces]


def compared(trajectories: list[Trajectory]) -> list[float | None]:
    return [float(trajectory is RUN) or None for trajectory in trajectories]


def forgetful(traces: list[object]) -> list[float]:
    return [1.0]


def no_arguments() -> float:
    return 1.0


def test_a_function_over_a_trajectory_is_given_one() -> None:
    """The name or the annotation of the first parameter decides. True is 1."""
    assert (score(RUN, frugal), score(RUN, annotated), score(RUN, annotated, wanted=2)) == (1.0, 1.0, 0.0)


def test_a_function_is_passed_what_it_takes_alone() -> None:
    """Variables that the function does not name are not passed."""
    assert score(RUN, frugal, gold_answer="a") == 1.0


def test_no_reward_is_none() -> None:
    """A function may have nothing to say of a run."""
    assert score(RUN, undecided) is None


def test_a_reward_has_to_be_a_finite_number() -> None:
    """JSON has no infinity, and no mean has use for one."""
    with pytest.raises(ValueError, match="finite"):
        score(RUN, endless)


def test_a_function_is_found_by_its_module_and_by_its_file(tmp_path: Path) -> None:
    """`module:function`, and `file.py:function` for one that is not installed."""
    file = tmp_path / "mine.py"
    file.write_text("def half(trajectory):\n    return 0.5\n")

    assert reward_function("tests.views.test_rewards:frugal").__name__ == "frugal"
    assert score(RUN, reward_function(f"{file}:half")) == 0.5


def test_a_batch_is_scored_by_one_call() -> None:
    """The name of the first parameter decides: turns or trajectories, in the order of the runs."""
    longer = run(call(["q"], "a"), call(["r"], "b"))

    assert [is_batch(one) for one in (ranked, compared, frugal)] == [True, True, False]
    assert score_batch([RUN, longer], ranked, gold_answer="a") == [0.5, 1.0]
    assert score_batch([RUN, longer], compared) == [1.0, None]


def test_a_batch_has_a_reward_for_each_run() -> None:
    """Otherwise nobody could assign the rewards to runs."""
    with pytest.raises(ValueError, match="1 rewards for 2 runs"):
        score_batch([RUN, RUN], forgetful)


def test_toolbrains_wrapper_is_taken_for_the_function_in_it(tmp_path: Path) -> None:
    """`create_reward_function` returns an object with the function in `reward_func`."""
    file = tmp_path / "mine.py"
    file.write_text(
        "class Wrapper:\n    def __init__(self, f):\n        self.reward_func = f\n"
        "    def __call__(self, trace, **kwargs):\n        raise ValueError\n"
        "wrapped = Wrapper(lambda traces, **kwargs: [0.5] * len(traces))\n"
    )

    assert score_batch([RUN], reward_function(f"{file}:wrapped")) == [0.5]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("frugal", "module:function"),
        ("no_such_module:f", "no module no_such_module"),
        ("tests.views.test_rewards:missing", "has no such function"),
        ("missing.py:f", "there is no file missing.py"),
        ("tests.views.test_rewards:no_arguments", "takes no run"),
    ],
)
def test_what_is_no_reward_function_is_told(name: str, why: str) -> None:
    """Before any run is scored."""
    with pytest.raises(ValueError, match=why):
        reward_function(name)


def test_a_function_over_a_trace_is_given_toolbrains_turns() -> None:
    """ToolBrain's own form: a list of turns, and keyword arguments."""
    pytest.importorskip("trace_recorder.views.toolbrain.turns")

    def reward_turns(trace: list[dict[str, object]], **kwargs: object) -> float:
        assert trace[0].keys() >= {"prompt_for_model", "model_completion", "parsed_completion"}
        return len(trace) + float(str(kwargs["more"]))

    assert score(RUN, reward_turns, more=1) == 2.0
