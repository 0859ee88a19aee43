"""Reward functions over saved runs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.formats.made import call, run
from trace_recorder import Trajectory
from trace_recorder.formats.toolbrain.reward_functions import is_batch, reward_function, score, score_batch

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


def test_the_first_parameter_decides_what_a_function_gets() -> None:
    """The name or the annotation of the first parameter decides whether it gets a trajectory. True counts as 1."""
    assert (score(RUN, frugal), score(RUN, annotated), score(RUN, annotated, wanted=2)) == (1.0, 1.0, 0.0)


def test_a_function_gets_only_its_own_parameters() -> None:
    """Variables that the function does not name are not passed."""
    assert score(RUN, frugal, gold_answer="a") == 1.0


def test_a_function_may_give_no_reward() -> None:
    """A function that returns None gives the run no reward."""
    assert score(RUN, undecided) is None


def test_a_reward_must_be_a_finite_number() -> None:
    """Infinite rewards are refused, because JSON has no infinity and no mean could include it."""
    with pytest.raises(ValueError, match="finite"):
        score(RUN, endless)


def test_a_function_is_named_by_its_module_or_its_file(tmp_path: Path) -> None:
    """`module:function` names an installed function, and `file.py:function` a function in a file."""
    file = tmp_path / "mine.py"
    file.write_text("def half(trajectory):\n    return 0.5\n")

    assert reward_function("tests.formats.toolbrain.test_reward_functions:frugal").__name__ == "frugal"
    assert score(RUN, reward_function(f"{file}:half")) == 0.5


def test_a_batch_is_scored_by_one_call() -> None:
    """The name of the first parameter decides whether the batch is turns or trajectories. Runs keep their order."""
    longer = run(call(["q"], "a"), call(["r"], "b"))

    assert [is_batch(one) for one in (ranked, compared, frugal)] == [True, True, False]
    assert score_batch([RUN, longer], ranked, gold_answer="a") == [0.5, 1.0]
    assert score_batch([RUN, longer], compared) == [1.0, None]


def test_a_batch_must_have_a_reward_for_each_run() -> None:
    """A batch with fewer rewards than runs is an error."""
    with pytest.raises(ValueError, match="1 rewards for 2 runs"):
        score_batch([RUN, RUN], forgetful)


def test_toolbrain_s_wrapper_is_unwrapped(tmp_path: Path) -> None:
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
        ("tests.formats.toolbrain.test_reward_functions:missing", "has no such function"),
        ("missing.py:f", "there is no file missing.py"),
        ("tests.formats.toolbrain.test_reward_functions:no_arguments", "takes no run"),
    ],
)
def test_an_invalid_reward_function_is_refused(name: str, why: str) -> None:
    """The function is refused before any run is scored."""
    with pytest.raises(ValueError, match=why):
        reward_function(name)


def test_a_function_for_a_trace_gets_toolbrain_s_turns() -> None:
    """ToolBrain's form is a function of a list of turns and keyword arguments."""
    pytest.importorskip("trace_recorder.formats.toolbrain.turns")

    def reward_turns(trace: list[dict[str, object]], **kwargs: object) -> float:
        assert trace[0].keys() >= {"prompt_for_model", "model_completion", "parsed_completion"}
        return len(trace) + float(str(kwargs["more"]))

    assert score(RUN, reward_turns, more=1) == 2.0
