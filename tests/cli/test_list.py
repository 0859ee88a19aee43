"""The command `list`: which runs it shows, in which order, and how much of their files it reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder import Trajectory, load
from trace_recorder.cli.list_runs import listing
from trace_recorder.cli.list_table import flat_row, run_table

RUNS = {
    "a.json": {
        "task": "Mend the Parser",
        "start_time": "2025-06-10T10:00:00+00:00",
        "execution_time": 5.0,
        "provider": "openai",
        "model": "gpt-5",
        "status": "completed",
        "success": True,
        "metrics": {"llm_calls": 10, "input_tokens": 100, "output_tokens": 5, "cost": 0.5, "failed_tool_calls": 1},
    },
    "b.json": {
        "task": "Count files",
        "start_time": "2025-06-11T23:30:00+02:00",
        "execution_time": 70.5,
        "provider": "anthropic",
        "model": "claude",
        "status": "completed",
        "success": False,
        "metrics": {"llm_calls": 3, "input_tokens": 20, "output_tokens": 90, "failed_llm_calls": 0},
    },
    "c.json": {
        "task": "Count lines",
        "start_time": "2025-06-12T00:00:00+00:00",
        "execution_time": None,
        "provider": "openai",
        "model": "gpt-5-mini",
        "status": "failed",
        "success": None,
        "error": {"type": "ValueError", "message": "no"},
        "metrics": {"llm_calls": 3, "input_tokens": 7, "cost": 2, "failed_llm_calls": 1},
    },
    "d.json": {
        "task": None,
        "start_time": None,
        "execution_time": 6,
        "status": "interrupted",
        "success": None,
        "metrics": {"llm_calls": 1, "cost": "much"},
    },
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the local time zone to UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with runs for these tests."""
    for name, said in RUNS.items():
        usage = {"cost": said["metrics"].get("cost")}
        document = {**said, "llm_interactions": [{"timestamp": "", "response": {"usage": usage}}], "agent_steps": []}
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    return tmp_path


def listed(directory: Path, *options: str) -> str:
    """Return the names of the listed runs without their suffixes."""
    result = invoke("list", directory, "--json", *options)
    assert result.exit_code == 0, result.output
    return "".join(row["file"].removesuffix(".json") for row in json.loads(result.output)["trajectories"])


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--status completed", "ab"),
        ("--status failed --status interrupted", "dc"),
        ("--status running", ""),
        ("--status success", "a"),
        ("--status no-success --status failed", "bc"),
        ("--model GPT-5", "ac"),
        ("--model openai/", "ac"),
        ("--model claude", "b"),
        ("--task count", "bc"),
        ("--task parser", "a"),
        ("--since 2025-06-12", "c"),
        ("--since 2025-06-11", "bc"),
        ("--since 2025-06-11T21:30", "bc"),
        ("--since 2025-06-11T21:31", "c"),
        ("--since 2025-06-12T01:59:59+02:00", "c"),
        ("--since 2025-06-12T02:00:01+02:00", ""),
        ("--failed", "bc"),
        ("--errors", "ac"),
        ("--errors --task count --model gpt", "c"),
    ],
)
def test_only_the_runs_that_match_are_listed(options: str, found: str, runs: Path) -> None:
    """A run matches if all conditions are true; an unknown value does not match."""
    assert listed(runs, *options.split()) == found


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", "dabc"),
        ("--sort time", "dabc"),
        ("--reverse", "cbad"),
        ("--sort duration", "adbc"),
        ("--sort duration --reverse", "bdac"),
        ("--sort cost", "acdb"),
        ("--sort cost --reverse", "cabd"),
        ("--sort tokens", "cabd"),
        ("--sort tokens --reverse", "bacd"),
        ("--sort calls", "dbca"),
        ("--sort calls --reverse", "acbd"),
        ("--limit 2", "da"),
        ("--limit 9", "dabc"),
        ("--sort calls --reverse --limit 1", "a"),
        ("--limit 1 --task count", "b"),
    ],
)
def test_runs_are_sorted_by_a_figure(options: str, found: str, runs: Path) -> None:
    """Runs without the figure are last in both directions. Runs with equal figures are ordered by their start."""
    assert listed(runs, *options.split()) == found


def test_the_table_has_the_same_runs_in_the_same_order(runs: Path) -> None:
    """The table and `--json` have the same runs in the same order."""
    output = invoke("list", runs, "--sort", "calls", "--limit", "3").output

    assert [line.split()[0] for line in output.splitlines()] == ["file", "d.json", "b.json", "c.json"]


def test_default_names_are_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, a default name is shortened to its time, and a fork has one more column, for its call."""
    monkeypatch.setenv("COLUMNS", "80")
    task = "Fix the failing test in test_parser.py"
    for name, members in {
        "trajectory_20250612_220546.json": {
            "metrics": {"agent_steps": 28, "total_input_tokens": 763_000, "cost": 2.25}
        },
        "trajectory_20250613_101500.1.json": {"metrics": {"llm_calls": 3, "agent_steps": 3}, "status": "failed"},
        "trajectory_20250613_090000_2.json": {
            "metadata": {"forked_from": {"file": "trajectory_20250612_220546.jsonl"}}
        },
    }.items():
        document = {**RUNS["a.json"], "task": task, **members, "llm_interactions": [], "agent_steps": []}
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")

    assert invoke("list", tmp_path).output == (
        "file                 task                      status     success  steps  tokens\n"
        "20250612_220546      Fix the failing test ...  completed  yes         28    763k\n"
        "└ 20250613_090000_2  Fix the failing test ...  completed  yes                105\n"
        "20250613_101500.1    Fix the failing test ...  failed     yes          3\n"
    )


def test_the_status_has_a_colour(runs: Path) -> None:
    """`list` prints success in green and failure in red."""
    rows = map(flat_row, listing([runs]).rows())

    coloured = [{text.strip(): style for text, style in line if style} for line in run_table(rows, 60)]
    assert coloured[1:] == [
        {"interrupted": "yellow"},
        {"completed": "green", "yes": "green"},
        {"completed": "green", "no": "red"},
        {"failed": "red"},
    ]


@pytest.mark.parametrize(
    ("count", "shown"), [(9_999, "9,999"), (12_345, "12.3k"), (999_400, "999k"), (1_250_000, "1.25M")]
)
def test_tokens_take_six_characters(count: int, shown: str, tmp_path: Path) -> None:
    """The table rounds a large count of tokens to six characters. `--json` has the exact count."""
    document = {
        "status": "completed",
        "metrics": {"total_input_tokens": count},
        "llm_interactions": [],
        "agent_steps": [],
    }
    (tmp_path / "a.json").write_text(json.dumps(document), encoding="utf-8")

    assert invoke("list", tmp_path).output.splitlines()[1].split()[-1] == shown


def test_no_matching_run_is_reported(runs: Path) -> None:
    """If no run matches, `list` prints a message and exits with 0."""
    done = invoke("list", runs, "--task", "nothing of the kind")

    assert (done.exit_code, done.output) == (0, "No run matches.\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--status done", "'done' is not one of running, completed, failed, interrupted, unknown, success, no-success"),
        ("--sort name", "'name' is not one of time, duration, cost, tokens, calls"),
        ("--since yesterday", "'yesterday' is not a time such as 2025-06-12"),
        ("--limit 0", "Invalid value for '--limit'"),
    ],
)
def test_invalid_options_of_list_exit_with_2(options: str, message: str, runs: Path) -> None:
    """The message names the invalid option."""
    done = invoke("list", runs, *options.split())

    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_calls_of_an_ended_run_are_not_read(tmp_path: Path) -> None:
    """`list` shows a row for an ended run with damaged calls, because it reads neither the document's calls nor the
    journal's.
    """
    path = recorded(tmp_path / "run.json")
    before = [*listing([tmp_path]).rows()]
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"llm_interactions": [', b'"llm_interactions": [{{{'))
    path.with_suffix(".jsonl").unlink()

    assert [*listing([tmp_path], load_runs=pytest.fail).rows()] == before


def test_an_unfinished_run_is_read_whole(tmp_path: Path) -> None:
    """`list` counts the calls of an unfinished run by reading its whole file, because the file has no end that states
    their number.
    """
    path = recorded(tmp_path / "run.json")
    path.unlink()
    journal = path.with_suffix(".jsonl")
    journal.write_bytes(b"".join(line for line in journal.read_bytes().splitlines(True) if b'"finalize"' not in line))
    read: list[Path] = []

    def load_it(path: Path) -> list[Trajectory]:
        read.append(path)
        return [load(path)]

    [row] = listing([tmp_path], load_runs=load_it).rows()
    assert (row.llm_calls, row.status, read) == (1, load(journal).status, [journal])
