"""load_all: the runs of a directory, loaded one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import recorded
from trace_recorder import TrajectoryFormatError, UnreadableRunsError, load_all


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with two runs, and another file between them."""
    recorded(tmp_path / "a.json", "first")
    (tmp_path / "b.json").write_text("{}")
    recorded(tmp_path / "c.json", "second")
    return tmp_path


def test_runs_are_read_one_by_one_in_the_order_of_their_names(directory: Path) -> None:
    """A run is read when the iterator reaches it, so a change in the meantime is seen."""
    runs = load_all(directory, strict=False)

    assert next(runs).llm_interactions[0].response.content == "first"
    (directory / "c.jsonl").unlink()
    (directory / "c.json").write_text("{")
    assert [*runs] == []
    assert [path.name for path in runs.failures] == ["b.json", "c.json"]


def test_files_that_are_not_runs_are_reported_at_the_end(directory: Path) -> None:
    """All runs come first. Then one error names the files that could not be read."""
    runs = load_all(str(directory))
    answers = [next(runs).llm_interactions[0].response.content for _ in range(2)]

    with pytest.raises(UnreadableRunsError, match=r"1 of the files(.|\n)*b\.json is not a trajectory") as raised:
        next(runs)
    assert answers == ["first", "second"]
    assert isinstance(raised.value.failures[directory / "b.json"], TrajectoryFormatError)
    assert [*runs] == []


def test_a_missing_directory_is_an_error_at_once(tmp_path: Path) -> None:
    """The error is raised before any run is asked for."""
    with pytest.raises(FileNotFoundError):
        load_all(tmp_path / "none")
