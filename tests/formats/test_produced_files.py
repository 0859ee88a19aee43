"""The files that were produced for the project: each is recognised as the format of its folder, complete, and safe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from tests.counting import calls
from tests.formats.files import PRODUCED, check_run, produced_files, real_files
from tests.formats.fuzzing import one
from tests.formats.test_every_real_file import check_exports
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.imported_runs import runs_in
from trace_recorder.formats.recognition import format_of
from trace_recorder.values.messages import Payload

FOLDERS = sorted({path.relative_to(PRODUCED).parts[0] for path in produced_files()})

_OF_REAL_FILES = {"claude-code", "gemini-stream"}
"""Formats of which there are real files too."""


def test_each_file_is_recognised_as_the_format_of_its_folder() -> None:
    found = {path.relative_to(PRODUCED).as_posix(): format_of(Source(path)) for path in produced_files()}
    assert found == {name: name.partition("/")[0] for name in found}


def test_no_real_file_is_recognised_as_one_of_these_formats() -> None:
    taken = {path.as_posix(): format_of(Source(path)) for path in real_files("**/*")}
    assert {path: name for path, name in taken.items() if name in {*FOLDERS} - _OF_REAL_FILES} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_run_is_valid_and_can_be_exported(folder: str, tmp_path: Path) -> None:
    for path in produced_files(f"{folder}/**/*"):
        for run in runs_in(Source(path)):
            trajectory = check_run(run, tmp_path)
            assert trajectory.llm_interactions
            check_exports(trajectory, tmp_path / "exports")


@pytest.mark.parametrize("folder", FOLDERS)
def test_damaged_copies_are_read_or_refused_and_keys_are_masked(folder: str, tmp_path: Path) -> None:
    files = produced_files(f"{folder}/**/*")
    problems: list[str] = []
    for number in range(12):
        place = tmp_path / f"{number}"
        place.mkdir()
        problems += one(number, Random(folder).randrange(1000), files, place)
    assert problems == []


def _grown(path: Path, times: int) -> bytes:
    """Return the file with its lines, or the elements of its longest list, repeated this many times."""
    data = path.read_bytes()
    try:
        document = json.loads(data)
    except ValueError:
        return data * times
    longest = max(_lists(document), key=len, default=[])
    longest[:] = longest * times
    return json.dumps(document).encode()


def _lists(value: Payload) -> Iterator[list[Payload]]:
    if isinstance(value, list):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_of_twice_the_length_costs_at_most_twice_as_much(folder: str, tmp_path: Path) -> None:
    """All function calls for reading the file and for making the journal are counted."""
    files = [path for path in produced_files(f"{folder}/**/*") if path.suffix in {".json", ".jsonl", ".har", ".md"}]
    for path in files[-1:]:
        costs: list[float] = []
        for times in (1, 8, 16):  # the first reading also imports modules
            grown = tmp_path / f"{times}" / path.name
            grown.parent.mkdir()
            grown.write_bytes(_grown(path, times))
            costs.append(calls(lambda grown=grown: [*chain.from_iterable(map(journal_lines, runs_in(Source(grown))))]))
        assert costs[2] < 2.3 * costs[1], path
