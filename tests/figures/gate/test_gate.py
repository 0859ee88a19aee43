"""The gate: which runs are paired, and how many of them must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.figures.gate.recorded_runs import answer, recorded_run
from trace_recorder import RulesError, load
from trace_recorder.figures.gate.gate import CheckTask, RunOfTask, check_task, tasks_of
from trace_recorder.figures.gate.rules import Pairing, Passing, Rules
from trace_recorder.values.trajectory import Trajectory


def runs(*names_and_tasks: str) -> list[RunOfTask]:
    """Return runs, such as "a:tea" for the run `a` with the task `tea`."""
    pairs = [each.partition(":") for each in names_and_tasks]
    return [RunOfTask(Path(name), task or None) for name, _, task in pairs]


def shown(tasks: list[CheckTask]) -> list[str]:
    """Return tasks as texts, such as "tea: a b | c"."""
    return [f"{task.task}: {' '.join(map(str, task.golden))} | {' '.join(map(str, task.live))}" for task in tasks]


PAIRS: list[tuple[list[str], list[str], Pairing, list[str]]] = [
    (["a:tea", "b:rice"], ["c:rice", "d:tea", "e:tea"], "task", ["tea: a | d e", "rice: b | c"]),
    (["a:tea", "b:tea"], ["c:tea"], "task", ["tea: a b | c"]),
    (["a:tea", "b:rice"], ["c:tea", "d:bread"], "task", ["tea: a | c", "rice: b | ", "bread:  | d"]),
    (["a:tea", "b"], ["c:tea", "d"], "task", ["tea: a | c", "None: b | d"]),
    (["a"], ["b", "c"], "task", ["None: a | b c"]),
    (["a", "b"], ["c", "d"], "task", ["None: a | c", "None: b | d"]),
    (["a:tea at 9"], ["b:tea at 10"], "task", ["tea at 9: a | b"]),
    (["a:tea", "b:rice"], ["c:rice", "d:tea"], "order", ["tea: a | c", "rice: b | d"]),
]


@pytest.mark.parametrize(("golden", "live", "pairing", "expected"), PAIRS)
def test_runs_are_paired(golden: list[str], live: list[str], pairing: Pairing, expected: list[str]) -> None:
    """Runs of one task belong together. Without a common task, they are paired by their order."""
    assert shown(tasks_of(runs(*golden), runs(*live), pairing)) == expected


def test_runs_that_cannot_be_paired_are_refused() -> None:
    """Without a common task, two golden runs and three live runs have no pairs."""
    with pytest.raises(RulesError, match="2 golden runs and 3 live runs cannot be paired: no task is in both"):
        tasks_of(runs("a", "b"), runs("c", "d", "e"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the runs small, small_2 and large, of one, one and three calls."""
    recorded_run(tmp_path / "small.json", [answer("1")])
    recorded_run(tmp_path / "small_2.json", [answer("1")])
    recorded_run(tmp_path / "large.json", [answer("1")] * 3)
    return tmp_path


def verdict(place: Path, golden: str, live: str, passing: Passing) -> tuple[bool, str, list[bool]]:
    """Return whether the task passes, its problem, and whether each run passes."""

    def run_at(path: Path) -> Trajectory | str:
        if path.exists():
            return load(path)
        return f"{path.name} is unreadable"

    sides = [[place / f"{name}.json" for name in names.split()] for names in (golden, live)]
    result = check_task(CheckTask("tea", *sides), Rules(passing=passing), run_at)
    return result.passed, result.problem, [run.passed for run in result.runs]


FEW = "1 of 2 runs agree with a golden run, and 2 must"
VERDICTS = [
    ("small", "small_2", Passing(), True, "", [True]),
    ("small", "small_2 large", Passing(), False, FEW, [True, False]),
    ("small", "small_2 large", Passing.of("1 of 2"), True, "", [True, False]),
    ("small", "small_2 large", Passing.of(1), True, "", [True, False]),
    (
        "small",
        "small_2 large",
        Passing.of("1 of 3"),
        False,
        "the rules ask for 3 live runs, and the task has 2",
        [True, False],
    ),
    ("large small", "small_2", Passing(), True, "", [True]),
    ("", "small", Passing(), False, "there is no golden run of this task", [False]),
    ("small", "", Passing(), False, "there is no live run of this task", []),
    ("small", "gone", Passing(), False, "0 of 1 runs agree with a golden run, and 1 must", [False]),
    ("small gone", "small_2", Passing(), False, "gone.json is unreadable", [True]),
]


@pytest.mark.parametrize(("golden", "live", "passing", "passed", "problem", "of_runs"), VERDICTS)
def test_a_task_passes_if_enough_runs_agree(
    golden: str, live: str, passing: Passing, passed: bool, problem: str, of_runs: list[bool], place: Path
) -> None:
    """A live run passes if it agrees with any golden run. By default, all live runs of a task must pass."""
    assert verdict(place, golden, live, passing) == (passed, problem, of_runs)


def test_a_run_that_differs_is_compared_with_the_nearest_golden_run(place: Path) -> None:
    """The verdict has the golden run with the fewest differences."""
    other = recorded_run(place / "other.json", [answer("1")] * 3, model="n")
    golden = [place / "small.json", place / "large.json"]

    [run] = check_task(CheckTask("tea", golden, [other]), Rules(), load).runs

    assert (run.golden, [violation.rule for violation in run.violations]) == (place / "large.json", ["models"])
