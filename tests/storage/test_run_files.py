"""Which files are runs: in a directory, and in the directories below it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trace_recorder.storage.run_files import runs_in_directory


def touch(directory: Path, *names: str) -> None:
    """Create empty files, and their directories."""
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names_of(directory: Path, *, recursive: bool = True) -> list[str]:
    """Return the paths of the runs that are found, relative to the directory."""
    return [path.relative_to(directory).as_posix() for path in runs_in_directory(directory, recursive=recursive)]


def test_the_runs_of_each_directory_come_before_those_below_it(tmp_path: Path) -> None:
    """The documents of a directory come first, then journals without a document, then subdirectories, each sorted by
    name.
    """
    touch(tmp_path, "z.json", "z.jsonl", "b.jsonl", "a/y.json", "a/deep/x.jsonl", "a.d/w.json", "notes.txt")
    touch(tmp_path, "named", "named.journal.jsonl")

    assert names_of(tmp_path) == [
        *("z.json", "b.jsonl", "named.journal.jsonl"),
        *("a/y.json", "a/deep/x.jsonl", "a.d/w.json"),
    ]
    assert names_of(tmp_path, recursive=False) == ["z.json", "b.jsonl", "named.journal.jsonl"]


def test_links_to_directories_and_hidden_names_are_left_out(tmp_path: Path) -> None:
    """Links to directories and hidden names are not searched, so that no run is found twice and no loop is followed."""
    touch(tmp_path / "runs", "a.json", ".git/b.json", ".hidden.json", "sub/c.json")
    touch(tmp_path, "elsewhere/d.json")
    (tmp_path / "runs" / "loop").symlink_to(".")
    (tmp_path / "runs" / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs" / "e.json").symlink_to(tmp_path / "elsewhere" / "d.json")

    assert names_of(tmp_path / "runs") == ["a.json", "e.json", "sub/c.json"]


def test_a_named_directory_that_is_a_link_is_searched(tmp_path: Path) -> None:
    """A link to a directory is followed if the user names it."""
    touch(tmp_path, "runs/sub/a.json")
    (tmp_path / "link").symlink_to("runs")

    assert names_of(tmp_path / "link") == ["sub/a.json"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="every directory can be read")
def test_an_unreadable_directory_below_is_named(tmp_path: Path) -> None:
    """An unreadable subdirectory is reported with the reason, and the other runs are found."""
    touch(tmp_path, "a/x.json", "b/y.json")
    (tmp_path / "a").chmod(0)
    try:
        assert names_of(tmp_path) == ["a", "b/y.json"]
    finally:
        (tmp_path / "a").chmod(0o700)
