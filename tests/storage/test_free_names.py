"""A free name is found with few looks, however many names are taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_recorder import TrajectoryRecorder
from trace_recorder.storage.free_names import free_paths

RUN = Path("run.json")


def looks(taken: set[str], *, first: int = 0) -> tuple[str, int]:
    """Return the name that is found, and how many names are looked at."""
    asked: list[str] = []

    def is_taken(path: Path) -> bool:
        asked.append(path.name)
        return path.name in taken

    return next(free_paths(RUN, is_taken, first=first)).name, len(asked)


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (0, 19_999), (1, 100_000)])
def test_the_number_of_looks_grows_with_the_logarithm(first: int, count: int) -> None:
    """The smallest free number of a row without gaps is found with at most 40 looks among 100,000."""
    numbers = range(first, first + count)
    taken = {f"run.{number}.json" if number else "run.json" for number in numbers}
    free = first + count
    name, number_of_looks = looks(taken, first=first)
    assert (name, number_of_looks <= 40) == (f"run.{free}.json" if free else "run.json", True)


def test_a_path_that_another_process_takes_is_followed_by_the_next() -> None:
    candidates = free_paths(RUN, {RUN, Path("run.1.json")}.__contains__)
    assert [next(candidates).name for _ in range(3)] == ["run.2.json", "run.3.json", "run.4.json"]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_name_among_thousands_of_earlier_runs_needs_few_looks(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder whose path was used by 2,000 earlier runs looks at 50 names at most, and renames the last run."""
    for number in range(1, 2_000):
        (tmp_path / f"run.{number}{suffix}").touch()

    looked: list[object] = []

    def look(path: object, exists: Callable[[Any], bool] = os.path.lexists) -> bool:
        looked.append(path)
        return exists(path)

    for _ in range(2):
        looked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os.path, "lexists", look)
            with TrajectoryRecorder(tmp_path / "run.json"):
                pass
    assert 0 < len(looked) <= 100
    assert (tmp_path / "run.2000.jsonl").is_file()
