"""The list of runs: its order, and that one thread at a time works out what runs cost, the newest first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.chat_calls import asked, call
from tests.viewer.test_list_costs import priced
from trace_recorder import TrajectoryRecorder
from trace_recorder.viewer.runs import RunList

NAMES = ("oldest.json", "middle.json", "newest.json")


@pytest.fixture
def runs(tmp_path: Path) -> RunList:
    """Three runs, one after another."""
    for name in NAMES:
        with TrajectoryRecorder(tmp_path / name) as recorder:
            call(recorder, asked("hi", model="gpt-4o"), priced("gpt-4o", 1000))
    return RunList(tmp_path)


def with_costs(runs: RunList) -> list[str]:
    """The runs of the list whose costs are known."""
    return [row["id"] for row in runs.to_json()["runs"] if row["cost"] is not None]


def test_the_newest_run_is_listed_first(runs: RunList) -> None:
    """Runs that began at the same time, or at none that is known, are in the order of their names, the last first."""
    for name in ("a.json", "b.json"):
        (runs.directory / name).write_text('{"llm_interactions": [], "agent_steps": []}')

    assert [row["id"] for row in runs.to_json()["runs"]] == [*reversed(NAMES), "b.json", "a.json"]


def test_the_costs_of_the_newest_runs_come_first(runs: RunList, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are read as long as there is time, from the newest run on."""
    read: list[str] = []
    read_bytes = Path.read_bytes

    def noting(path: Path) -> bytes:
        read.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noting)
    runs.work_out_costs(0)
    assert (read, with_costs(runs)) == ([], [])
    runs.work_out_costs(60)
    assert (read, with_costs(runs)) == ([*reversed(NAMES)], [*reversed(NAMES)])


def test_one_thread_works_out_costs_and_the_list_waits_for_none(runs: RunList, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a run is read, a second thread returns at once, and the list is given without its costs."""
    is_reading, may_read = threading.Event(), threading.Event()
    read_bytes = Path.read_bytes

    def slowly(path: Path, *arguments: Any) -> bytes:
        is_reading.set()
        assert may_read.wait(60)
        return read_bytes(path, *arguments)

    monkeypatch.setattr(Path, "read_bytes", slowly)
    with ThreadPoolExecutor() as threads:
        try:
            first = threads.submit(runs.work_out_costs, 60)
            assert is_reading.wait(60)
            threads.submit(runs.work_out_costs, 60).result(30)
            assert threads.submit(with_costs, runs).result(30) == []
            assert not first.done()
        finally:
            may_read.set()
        first.result(60)

    assert with_costs(runs) == [*reversed(NAMES)]
