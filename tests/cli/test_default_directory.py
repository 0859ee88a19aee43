"""Every command that reads runs takes the default directory, and says in one sentence that it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.cli.program import program

READING = {
    "list": 1,
    "show": 1,
    "tail": 1,
    "view -o run.html": 1,
    "stats": 1,
    "grep a": 1,
    "validate": 1,
    "recover": 1,
    "prune --max-size 0": 1,
    "export -f trl": 1,
    "score --reward rewards.py:one": 1,
    "replay -- true": 1,
    "fork --at 1 -- true": 1,
    "serve": 1,
    "diff": 2,
}
"""The commands with the exit code of a failure: for `diff`, 1 means that two runs differ."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACE_RECORDER_DIR", "runs")
    (tmp_path / "rewards.py").write_text("def one(trajectory):\n    return 1\n")


@pytest.mark.parametrize(("command", "code"), READING.items(), ids=READING)
def test_an_empty_directory_is_one_sentence(command: str, code: int) -> None:
    """Each command that finds no run in a directory prints one sentence to stderr, and nothing to stdout."""
    Path("runs").mkdir()

    done = invoke(*command.split())
    kind = "journals" if command == "tail" else "trajectories"
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", f"trace-recorder: there are no {kind} in runs\n")


@pytest.mark.parametrize(("command", "code"), READING.items(), ids=READING)
def test_a_missing_directory_is_one_sentence(command: str, code: int) -> None:
    """Each command reports a missing directory in one sentence. `grep` exits with its own code for a failure."""
    done = invoke(*command.split())

    message = "trace-recorder: there are no trajectories in runs: there is no such directory\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2 if command == "grep a" else code, "", message)


def test_the_newest_two_runs_of_the_directory_are_compared() -> None:
    """`diff` without arguments compares the newest two runs of the default directory, the older run first."""
    for name in ("one", "two", "three"):
        recorded(Path("runs", f"{name}.json"), name)

    lines = invoke("diff").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["a runs/two.json", "b runs/three.json"]
    assert lines[-1] == "  ~ content: [-two-]{+three+}"


def test_a_single_run_is_compared_with_nothing() -> None:
    """`diff` refuses a directory of one run, and a file without a second file."""
    path = recorded(Path("runs", "one.json"))

    assert invoke("diff").stderr == "trace-recorder: runs has one run only\n"
    assert "name the run to compare A with" in invoke("diff", path).stderr


def test_a_program_is_replayed_from_the_newest_run() -> None:
    """`replay` takes the words after `--` as the program, and the newest run of the directory if no run is named."""
    recorded(Path("runs", "one.json"))

    done = program("replay", "--loose", "--", "echo", "replayed")
    assert (done.returncode, done.stdout) == (0, b"replayed\n")


def test_stats_without_a_readable_run_prints_no_figures() -> None:
    """If the only run cannot be read, `stats` prints the reason, and no table of zeros."""
    done = invoke("stats", "missing.json")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "trace-recorder: missing.json: No such file or directory\n"
