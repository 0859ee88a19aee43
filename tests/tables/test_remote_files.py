"""Runs at URLs of fsspec are found, read and named like those of a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests.cli.invoking import invoke, recorded
from trace_recorder.storage.remote_files import address_of, remote_runs
from trace_recorder.storage.run_files import runs_in_directory


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a directory with runs in it and below it, one of them damaged, and other files."""
    for name in ("b", "a", "below/c", "below.1/d", "below/deeper/e"):
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        recorded(tmp_path / "runs" / f"{name}.json", f"answer {name}")
    (tmp_path / "runs" / "b.json").unlink()
    (tmp_path / "runs" / "damaged.json").write_text("{")
    (tmp_path / "runs" / "notes.txt").write_text("no run")
    (tmp_path / "runs" / ".hidden").mkdir()
    recorded(tmp_path / "runs" / ".hidden" / "f.json")
    return tmp_path / "runs"


@pytest.fixture
def address(runs: Path) -> Iterator[str]:
    """Yield a URL with the same runs in fsspec's memory."""
    memory = fsspec.filesystem("memory")
    memory.put(str(runs), "/runs", recursive=True)
    yield "memory://runs"
    memory.rm("/runs", recursive=True)


def named(text: str, runs: Path) -> str:
    """Return the output for the directory with the URL in its place."""
    return text.replace(str(runs), "memory:/runs")


def test_the_runs_of_a_url_equal_those_of_a_directory(runs: Path, address: str) -> None:
    """A URL has the same runs as the directory, in the same order, without hidden ones; the URL of a file gives that
    file.
    """
    found = [str(path) for path in remote_runs(address)]

    assert found == [named(str(path), runs) for path in runs_in_directory(runs)]
    assert remote_runs(f"{address}/a.json") == [Path("memory:/runs/a.json")]


@pytest.mark.parametrize(
    "command",
    [
        ("stats", "--json"),
        ("validate", "--json"),
        ("export", "-f", "openai"),
        ("sql", "select file, content, status from calls order by 1", "--json"),
    ],
)
def test_a_command_reads_a_url_like_a_directory(runs: Path, address: str, command: tuple[str, ...]) -> None:
    """A command has the same output, reports and exit code for a URL, with paths that begin with the URL."""
    there, here = (invoke(*command, where) for where in (address, runs))

    assert here.exit_code == 1
    printed = named(here.stdout, runs), named(here.stderr, runs)
    assert (there.exit_code, there.stdout, there.stderr) == (1, *printed)


def test_find_searches_a_url_like_a_directory(runs: Path, address: str) -> None:
    """`find` has the same paths and reports for a URL as for a directory."""
    there, here = (invoke("find", "--paths", "answer", where) for where in (address, runs))

    assert here.stdout
    assert (there.exit_code, there.stdout) == (here.exit_code, named(here.stdout, runs))
    assert there.stderr == named(here.stderr, runs)


def test_a_missing_url_is_reported(address: str) -> None:
    """A missing URL, or one with an unknown scheme, is reported in one sentence."""
    missing, unknown = invoke("stats", "memory://nothing/run.json"), invoke("stats", "nosuch://runs")

    assert (missing.exit_code, len(missing.stderr.splitlines())) == (1, 1)
    assert (unknown.exit_code, len(unknown.stderr.splitlines())) == (1, 1)


def test_rewards_cannot_be_appended_at_a_url(address: str, tmp_path: Path) -> None:
    """A reward for a run at a URL is refused, because rewards are appended only to local files."""
    (tmp_path / "rewards.py").write_text("def good(trajectory):\n    return 1\n")
    result = invoke("score", f"{address}/a.json", "--reward", f"{tmp_path / 'rewards.py'}:good")

    assert result.exit_code == 1
    assert "memory:/runs/a.json" in result.stderr


@pytest.mark.parametrize(("name", "out"), [("parquet", "out"), ("trae", "out/"), ("openai", "out/rows.jsonl")])
def test_an_export_may_be_written_to_a_url(address: str, tmp_path: Path, name: str, out: str) -> None:
    """An export to a URL writes the files of a directory, and replaces existing ones only if asked."""
    memory = fsspec.filesystem("memory")
    results = [
        invoke("export", f"{address}/a.json", "-f", name, "-o", f"memory://{out}", *more)
        for more in ([], [], ["--force"], ["--resume"])
    ]
    invoke("export", f"{address}/a.json", "-f", name, "-o", tmp_path / out)
    found = {path: memory.cat_file(path) for path in memory.find("/out")}
    memory.rm("/out", recursive=True)

    assert [result.exit_code for result in results] == [0, 1, 0, 2]
    assert found == {
        f"/{path.relative_to(tmp_path)}": path.read_bytes()
        for path in (tmp_path / "out").rglob("*.*")
        if path.is_file()
    }


def test_replacing_tables_removes_older_parts(address: str) -> None:
    """An export that replaces tables removes older parts, whose rows would count twice, and keeps other files."""
    memory = fsspec.filesystem("memory")
    for name in ("part-00000.parquet", "part-00001.parquet", "notes.txt"):
        memory.pipe_file(f"/out/runs/{name}", b"old")
    result = invoke("export", f"{address}/a.json", "-f", "parquet", "-o", "memory://out", "--force")
    files = {path: memory.cat_file(path) for path in memory.find("/out/runs")}
    memory.rm("/out", recursive=True)

    assert result.exit_code == 0
    assert sorted(files) == ["/out/runs/notes.txt", "/out/runs/part-00000.parquet"]
    assert files["/out/runs/part-00000.parquet"] != b"old"


def test_a_path_is_not_a_url(tmp_path: Path) -> None:
    """A Windows path, and a path with a colon, are not URLs."""
    (tmp_path / "s3:").mkdir()

    assert [address_of(Path(one)) for one in ("runs", "/a/b.json", "c:/runs", f"{tmp_path}/s3:")] == [None] * 4
    assert [address_of(Path(one)) for one in ("s3://b/r", "hf://datasets/o/n/a.json", "file:///tmp/a")] == [
        "s3://b/r",
        "hf://datasets/o/n/a.json",
        "file:///tmp/a",
    ]
