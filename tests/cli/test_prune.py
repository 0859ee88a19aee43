"""The command `prune`: its output, its sizes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke
from tests.retention.stored import fork_of, store
from trace_recorder.cli.text_layout import parse_size, size_text


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with three runs and a file that is not a run, all with sizes of kilobytes."""
    monkeypatch.setenv("TZ", "UTC")
    directory = tmp_path / "runs"
    store(directory / "a.json", "a", days=9)
    store(directory / "b.json", "b", days=8)
    store(directory / "fork.json", "c", metadata={"fork": 1}, **fork_of("b"))
    (directory / "notes.json").write_text("{}")
    return directory


def test_the_table_has_what_goes_and_why_others_stay(directory: Path) -> None:
    shown = invoke("prune", directory, "--where", "-meta:fork")

    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["size", "file", "ended", "status", "task"]
    size, file, _, _, status, *task = lines[1].split()
    assert (file, status, task) == ("a.json", "completed", ["ask"])
    assert lines[2].startswith(f"1 run would go, {size} of ")
    assert lines[3:] == [
        "1 other run not selected.",
        "No tables are below the paths. Tables elsewhere are not touched: --tables names them.",
        "Nothing was deleted. With --yes, these runs are.",
        "",
        "These stay:",
        "  notes.json: it is not a run of this package",
        f"  b.json: {directory / 'fork.json'} stays, and refers to it",
    ]


def test_the_same_as_json(directory: Path) -> None:
    """The JSON has the sums, and a run is deleted after the same call with --yes."""
    plan = json.loads(invoke("prune", directory, "--where", "-meta:fork", "--json").stdout)
    done = json.loads(invoke("prune", directory, "--where", "-meta:fork", "--json", "--yes").stdout)

    [run] = plan["runs"]
    assert (run["file"], run["trajectory_id"], run["status"], run["bytes"]) == (
        "a.json",
        "a",
        "completed",
        plan["bytes"],
    )
    assert done == {**plan, "deleted": True}
    assert [(one["file"], one["reason"]) for one in plan["staying"]] == [
        ("notes.json", "foreign"),
        ("b.json", "referred"),
    ]
    assert not (directory / "a.jsonl").exists()


def test_a_second_prune_finds_nothing(directory: Path) -> None:
    assert invoke("prune", directory, "--max-size", "0", "--yes").exit_code == 0
    again = invoke("prune", directory, "--max-size", "0", "--yes")

    assert (again.exit_code, again.stdout) == (
        0,
        "0 runs deleted, 0. 0 of runs stay.\n\nThese stay:\n  notes.json: it is not a run of this package\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], 2, "say which runs"),
        (["--max-size", "50 apples"], 2, "'50 apples' is not a size such as 50G, 500M, 1T or 1000000"),
        (["--where", "colour:red"], 2, "--where or --keep: there is no field 'colour'"),
        (["--where", "calls>0", "--keep", "status:odd"], 2, "'odd' is not one of"),
        (["--where", ""], 2, "the query is empty"),
        (["nowhere", "--where", "calls>0"], 1, "nowhere: No such file or directory. Nothing was deleted"),
        (["--where", "calls>0", "--index", "i", "other"], 2, "an index belongs to one directory"),
        (["--where", "calls>0", "--index", "nowhere"], 1, "nowhere: No such file or directory. Nothing was deleted"),
    ],
)
def test_misuse_is_refused(directory: Path, arguments: list[str], code: int, why: str) -> None:
    done = invoke("prune", directory, *arguments, "--yes")

    assert (done.exit_code, why in " ".join(done.stderr.split()), (directory / "a.json").exists()) == (code, True, True)


def test_an_unreadable_run_is_named(directory: Path) -> None:
    """A run that cannot be judged stays, and the exit code says so."""
    (directory / "b.json").unlink()
    (directory / "b.jsonl").write_bytes((directory / "b.jsonl").read_bytes()[:60])
    (directory / "fork.json").write_text('{\n"task": 1')
    (directory / "fork.jsonl").unlink()

    done = invoke("prune", directory, "--where", "calls>0", "--yes")

    assert (done.exit_code, "fork.json is not a trajectory" in done.stderr) == (1, True)
    assert sorted(path.name for path in directory.glob("*.json*")) == ["b.jsonl", "fork.json", "notes.json"]


def test_no_runs_are_a_failure(tmp_path: Path) -> None:
    done = invoke("prune", tmp_path, "--max-size", "0")

    assert (done.exit_code, done.stderr) == (1, f"trace-recorder: there are no trajectories in {tmp_path}\n")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000000", 1_000_000), ("1k", 1024), ("1.5M", 1_572_864), ("50G", 53_687_091_200), ("1T", 2**40)],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1P", "1 0", "1e3", "half"])
def test_other_texts_are_no_sizes(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (999, "999"), (1000, "1.0K"), (15_000, "15K"), (1_022_000, "998K"), (2**41, "2.0T")]
)
def test_a_size_has_at_most_four_characters(size: int, text: str) -> None:
    assert size_text(size) == text
