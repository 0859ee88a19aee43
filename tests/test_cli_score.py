"""`trace-recorder score`: functions over saved runs, and their rewards on file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_cli_export import invoke, recorded
from trace_recorder import TrajectoryRecorder, load

MINE = """
def length(trajectory, per=1):
    return len(trajectory.llm_interactions[0].response.content) / per

def undecided(trajectory):
    return None

def ranked(traces, best=1.0):
    print(f"a batch of {len(traces)}")
    longest = max(len(trace[0]["model_completion"]) for trace in traces)
    return [best if len(trace[0]["model_completion"]) == longest else None for trace in traces]

def torn(traces):
    raise RuntimeError("no judge today")

def broken(trajectory):
    raise RuntimeError("no judge today")
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file with reward functions."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs that have ended."""
    directory = tmp_path / "runs"
    directory.mkdir()
    recorded(directory / "a.json", "four")
    recorded(directory / "b.json", "sixsix")
    return directory


def rewards(directory: Path) -> list[list[tuple[str, float, float]]]:
    """The rewards of each run: name, value, weight."""
    return [
        [(one.name, one.value, one.weight) for one in load(path).rewards] for path in sorted(directory.glob("*.json"))
    ]


def test_each_run_gets_its_reward(runs: Path, mine: Path) -> None:
    """Under the function's name, in its journal and its document."""
    result = invoke("score", runs, "--reward", f"{mine}:length")

    assert result.exit_code == 0
    assert result.stdout == f"{runs / 'a.json'}: length 4\n{runs / 'b.json'}: length 6\n"
    assert rewards(runs) == [[("length", 4.0, 1.0)], [("length", 6.0, 1.0)]]


def test_a_reward_may_have_a_name_a_weight_and_variables(runs: Path, mine: Path) -> None:
    """What is set is passed to the function by its name."""
    invoke("score", runs, "--reward", f"{mine}:length", "--name", "short", "--weight", "0.5", "--set", "per=2")

    assert rewards(runs) == [[("short", 2.0, 0.5)], [("short", 3.0, 0.5)]]


def test_a_run_is_scored_once_unless_asked(runs: Path, mine: Path) -> None:
    """A second time over the same directory adds nothing; --again does."""
    invoke("score", runs / "a.json", "--reward", f"{mine}:length")
    result = invoke("score", runs, "--reward", f"{mine}:length")
    assert "a.json: has this reward already" in result.stdout
    assert [len(own) for own in rewards(runs)] == [1, 1]

    invoke("score", runs, "--reward", f"{mine}:length", "--again")
    assert [len(own) for own in rewards(runs)] == [2, 2]


def test_nothing_is_written_when_nothing_is_to_be(runs: Path, mine: Path) -> None:
    """A dry run, and a function that gives no reward."""
    before = {path: path.read_bytes() for path in runs.iterdir()}

    assert "a.json: length 4" in invoke("score", runs, "--reward", f"{mine}:length", "--dry-run").stdout
    assert "a.json: no reward" in invoke("score", runs, "--reward", f"{mine}:undecided").stdout
    assert {path: path.read_bytes() for path in runs.iterdir()} == before


def test_a_function_that_fails_is_told_of_each_run(runs: Path, mine: Path) -> None:
    """Its error names the run; nothing is written, and the exit code says so."""
    result = invoke("score", runs, "--reward", f"{mine}:broken")

    assert result.exit_code == 1
    assert result.stderr.count("RuntimeError: no judge today") == 2
    assert rewards(runs) == [[], []]


def test_a_run_that_goes_on_is_refused_and_the_others_are_scored(runs: Path, mine: Path) -> None:
    """Its journal is the recorder's until it ends."""
    recorder = TrajectoryRecorder(runs / "c.json")
    recorder.start()
    recorder.record_llm_interaction([], {"content": "x"}, "openai", "m")
    result = invoke("score", runs, "--reward", f"{mine}:length")
    recorder.finalize()

    assert (result.exit_code, "still being written" in result.stderr) == (1, True)
    assert [len(own) for own in rewards(runs)] == [1, 1, 0]


def test_a_function_that_is_none_is_told_before_anything_is_read(runs: Path) -> None:
    """In one sentence."""
    result = invoke("score", runs, "--reward", "no_such_module:f")

    assert (result.exit_code, "no module no_such_module" in result.stderr) == (1, True)


def test_a_batch_is_scored_by_one_call(runs: Path, mine: Path) -> None:
    """ToolBrain's form for judges that rank: `f(traces)`; each run is given its own reward."""
    result = invoke("score", runs, "--reward", f"{mine}:ranked", "--set", "best=0.5")

    assert result.exit_code == 0
    assert result.stdout == (f"a batch of 2\n{runs / 'a.json'}: no reward\n{runs / 'b.json'}: ranked 0.5\n")
    assert rewards(runs) == [[], [("ranked", 0.5, 1.0)]]


def test_a_batch_is_of_runs_that_have_ended_and_lack_the_reward(runs: Path, mine: Path) -> None:
    """The others are told; a function is not called for no run."""
    invoke("score", runs / "b.json", "--reward", f"{mine}:ranked")
    recorder = TrajectoryRecorder(runs / "c.json")
    recorder.start()
    first = invoke("score", runs, "--reward", f"{mine}:ranked")
    recorder.finalize()
    again = invoke("score", runs / "b.json", "--reward", f"{mine}:ranked")

    assert (first.exit_code, "c.json is still being written" in first.stderr) == (1, True)
    assert first.stdout == (
        f"{runs / 'b.json'}: has this reward already (--again scores it again)\n"
        f"a batch of 1\n{runs / 'a.json'}: ranked 1\n"
    )
    assert "a batch" not in again.stdout


def test_a_batch_that_fails_writes_nothing(runs: Path, mine: Path) -> None:
    """It is told once, for all."""
    result = invoke("score", runs, "--reward", f"{mine}:torn")

    assert (result.exit_code, result.stderr) == (
        1,
        "trace-recorder: the runs cannot be scored: RuntimeError: no judge today\n",
    )
    assert rewards(runs) == [[], []]
