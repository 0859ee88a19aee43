"""Runs in directories below the named directory, as `make demo` writes them: every command finds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoking import invoke, recorded
from tests.viewer.serving import serving
from trace_recorder import UnreadableRunsError, load, load_all

ONE = "def one(trajectory): return 1.0\n"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without runs, which has two directories with a run each."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.py").write_text(ONE)
    recorded(tmp_path / "runs" / "demo" / "a.json", "alpha")
    recorded(tmp_path / "runs" / "demo" / "later" / "b.json", "beta")
    return Path("runs")


def test_a_list_names_runs_by_their_paths_from_the_directory(runs: Path) -> None:
    """`list` prints a run's path from the named directory. In `list --json`, `path` can be opened from the working
    directory.
    """
    rows = json.loads(invoke("list", runs, "--json").stdout)["trajectories"]

    assert [row["file"] for row in rows] == ["demo/a.json", "demo/later/b.json"]
    assert [load(row["path"]).llm_interactions[0].response.content for row in rows] == ["alpha", "beta"]


@pytest.mark.parametrize(
    "command",
    [
        ["grep", "alpha", "runs", "-l"],
        ["validate", "runs"],
        ["list", "runs"],
        ["export", "-f", "openai", "runs"],
        ["view", "runs", "-o", "page.html"],
        ["show", "runs"],
        ["tail", "runs"],
        ["diff", "runs"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_reads_finds_runs_below(runs: Path, command: list[str]) -> None:
    """Every command that reads runs exits with 0 if the runs are in directories below the named directory."""
    result = invoke(*command)

    assert (result.exit_code, "no trajectories" in result.output) == (command[0] == "diff", False), result.output
    assert runs.name


def test_stats_counts_the_runs_below(runs: Path) -> None:
    """`stats` counts all runs in directories below."""
    assert json.loads(invoke("stats", runs, "--json").stdout)["runs"]["runs"] == 2


@pytest.mark.parametrize("command", [["score", "--reward", "one.py:one"], ["recover"]], ids=["score", "recover"])
def test_commands_that_write_to_runs_need_recursive(runs: Path, command: list[str]) -> None:
    """Without `--recursive`, commands that write to runs print how to reach the runs below."""
    before = [path.read_bytes() for path in sorted(runs.rglob("*.json*"))]
    refused = invoke(*command, runs)
    unchanged = [path.read_bytes() for path in sorted(runs.rglob("*.json*"))]
    done = invoke(*command, runs, "--recursive")

    assert (refused.exit_code, unchanged == before) == (1, True)
    assert "--recursive" in refused.stderr
    assert (done.exit_code, "2 " in done.output) == (0, True)


def test_load_all_reads_runs_below_and_names_other_files(runs: Path) -> None:
    """`load_all` reads the runs in the order of their paths, and names each file that is not a run."""
    (runs / "demo" / "later" / "other.json").write_text("{}")
    found = load_all(runs)

    assert [next(found).path, next(found).path] == [runs / "demo" / "a.json", runs / "demo" / "later" / "b.json"]
    with pytest.raises(UnreadableRunsError, match=r"demo/later/other\.json"):
        next(found)


def test_the_viewer_lists_and_opens_them(runs: Path) -> None:
    """The viewer uses a run's path as its id, encoded as one segment of a URL, even if the path looks like a URL of the
    viewer.
    """
    recorded(runs / "demo" / "messages" / "1.json", "gamma")
    with serving(runs) as client:
        ids = {run["id"] for run in client.get("/api/runs").json()["runs"]}
        answers = [
            client.get(f"/api/runs/demo%2F{name}/interactions/1").text
            for name in ("a.json", "later%2Fb.json", "messages%2F1.json")
        ]

    assert ids == {"demo/a.json", "demo/later/b.json", "demo/messages/1.json"}
    assert [word in answer for answer, word in zip(answers, ["alpha", "beta", "gamma"], strict=True)] == [True] * 3


def test_a_run_named_by_several_paths_is_counted_once(runs: Path) -> None:
    """A run is counted once if it is named by its directory, a directory above it, a link, and its journal."""
    (runs / "link.json").symlink_to("demo/a.json")
    (runs / "link.jsonl").symlink_to("demo/a.jsonl")
    found = invoke("stats", runs, runs / "demo", runs / "demo" / "a.jsonl", "--json")

    assert json.loads(found.stdout)["runs"]["runs"] == 2
