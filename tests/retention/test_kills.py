"""`prune` is killed at system calls that change files: a run is whole or gone, and a second `prune` completes the work.

`nox -s kills` tries each system call.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.many_runs import settle
from tests.cli.invoking import invoke
from tests.faults.killed_calls import Killer
from tests.retention.stored import fork_of, places_of, store, tree
from trace_recorder import load, open_index
from trace_recorder.retention.pruning import prune

OLD = ("old1", "old2")
STEP = int(os.environ.get("TRACE_RECORDER_PRUNE_STEP", "5"))
"""Every so many calls, one is tried."""


def prune_old(directory: Path) -> None:
    """Delete the old runs of a directory."""
    prune(directory, where="meta:old", yes=True)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a directory with two old runs, one of them a fork of the other, a new run, an index and tables."""
    directory = tmp_path / "stored"
    store(directory / "old1.json", "planted in old1", metadata={"old": 1})
    store(directory / "old2.json", "planted in old2", metadata={"old": 2}, **fork_of("old1"))
    store(directory / "new.json", "kept")
    settle(directory)
    assert invoke("export", directory, "-f", "parquet", "-o", directory / "tables").exit_code == 0
    assert open_index(directory).update().runs == 3
    return directory


def faults_after(directory: Path, whole: Path) -> Iterator[str]:
    """Yield what is wrong in a directory after a kill. `whole` is the directory as it was."""
    before = {run: load(whole / f"{run}.json").to_document() for run in OLD}
    for run in OLD:
        document, journal = directory / f"{run}.json", directory / f"{run}.jsonl"
        if journal.exists():
            if load(journal).to_document() != before[run]:
                yield f"{run} is not whole"
        elif document.exists():
            yield f"{run} has no journal"
        elif places_of(f"planted in {run}", directory):
            yield f"{run} is gone, and its text is in {places_of(f'planted in {run}', directory)}"
    there = sorted(str(path.stem) for path in directory.glob("old*.jsonl"))
    if sorted(path.stem for path in open_index(directory).find("meta:old")) != there:
        yield "the index gives another answer"
    for name in ("new.json", "new.jsonl"):
        if (directory / name).read_bytes() != (whole / name).read_bytes():
            yield f"{name} has changed"


def test_a_killed_prune_leaves_each_run_whole_or_gone(stored: Path, tmp_path: Path) -> None:
    """After each kill, nothing is wrong, and the same command leaves what it leaves without a kill."""
    expected, faults, call = shutil.copytree(stored, tmp_path / "expected"), [], 1
    prune_old(expected)
    assert places_of("planted", expected) == []
    shutil.copytree(stored, tmp_path / "warm")

    with Killer(f"{__name__}:{prune_old.__name__}", tmp_path / "warm", tmp_path / "killing.so") as killer:
        while killer.kill(shutil.copytree(stored, tmp_path / "killed"), call):
            faults += [(call, fault) for fault in faults_after(tmp_path / "killed", stored)]
            prune_old(tmp_path / "killed")
            if tree(tmp_path / "killed").keys() != tree(expected).keys() or places_of("planted", tmp_path / "killed"):
                faults.append((call, "the second prune does not complete the first"))
            shutil.rmtree(tmp_path / "killed")
            call += STEP

    assert (faults, call > 100) == ([], True)
