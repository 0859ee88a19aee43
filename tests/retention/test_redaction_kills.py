"""`redact` is killed at system calls that change files: the run is the old or the new one, and is completed.

`nox -s kills` tries each system call.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.many_runs import settle
from tests.cli.invoking import recorded
from tests.faults.killed_calls import Killer
from trace_recorder import load, open_index, redact
from trace_recorder.storage.journal_reader import BadLine, read_records

TEXT = "Ann Lee and her seven files"
STEP = int(os.environ.get("TRACE_RECORDER_REDACT_STEP", "2"))
"""Every so many calls, one is tried."""


def remove_text(directory: Path) -> None:
    """Remove the text from the run of a directory."""
    redact(directory / "run.json", text=TEXT)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a directory with a run that has the text, and an index."""
    directory = tmp_path / "stored"
    recorded(directory / "run.json", f"it was {TEXT}", metadata={"by": TEXT})
    settle(directory)
    assert open_index(directory).update().runs == 1
    return directory


def files_with_text(directory: Path) -> list[str]:
    """Return the files that have the text, byte for byte, or in a compressed text of an index."""
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    contents = {
        index.path: "\n".join(index.contents()).encode() for index in map(open_index, {path.parent for path in files})
    }
    return [
        str(path.relative_to(directory))
        for path in files
        if TEXT.encode() in path.read_bytes() + contents.get(path, b"")
    ]


def faults_after(directory: Path, old: object, new: object) -> Iterator[str]:
    """Yield what is wrong in a directory after a kill. `old` and `new` are the documents before and after."""
    data = (directory / "run.jsonl").read_bytes()
    if any(isinstance(one, BadLine) for one in read_records(data)):
        yield "the journal is damaged"
    for path in (directory / "run.jsonl", directory / "run.json"):
        if without_times(load(path).to_document()) not in (old, new):
            yield f"{path.name} is neither old nor new"
    json.loads((directory / "run.json").read_bytes())


def without_times(document: dict[str, object]) -> object:
    """Return a document without the times of its removals."""
    removals = [{**one, "timestamp": None} for one in document.get("removals", ())]  # type: ignore[attr-defined]
    return {**document, "removals": removals}


def test_a_killed_redaction_leaves_the_old_run_or_the_new_one(stored: Path, tmp_path: Path) -> None:
    """After each kill the run can be read, and the same redaction leaves nothing, in no file, and no temporary file."""
    expected, faults, number = shutil.copytree(stored, tmp_path / "expected"), [], 1
    old = without_times(load(stored / "run.json").to_document())
    remove_text(expected)
    new = without_times(load(expected / "run.json").to_document())
    assert (files_with_text(stored)[:2], files_with_text(expected)) == ([".trace-recorder.sqlite3", "run.json"], [])
    names = sorted(path.name for path in expected.rglob("*"))
    shutil.copytree(stored, tmp_path / "warm")

    with Killer(f"{__name__}:{remove_text.__name__}", tmp_path / "warm", tmp_path / "killing.so") as killer:
        while killer.kill(shutil.copytree(stored, tmp_path / "killed"), number):
            faults += [(number, fault) for fault in faults_after(tmp_path / "killed", old, new)]
            remove_text(tmp_path / "killed")
            if files_with_text(tmp_path / "killed"):
                faults.append((number, f"still in {files_with_text(tmp_path / 'killed')}"))
            there = sorted(path.name for path in (tmp_path / "killed").rglob("*"))
            if there != names:
                faults.append((number, f"other files: {there}"))
            if without_times(load(tmp_path / "killed" / "run.json").to_document()) != new:
                faults.append((number, "the second redaction does not complete the first"))
            shutil.rmtree(tmp_path / "killed")
            number += STEP

    assert (faults, number > 30) == ([], True)
