"""The list of runs: the order of its rows, the order in which costs are read, and requests that do not wait for each
other.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.catalog.many_runs import settle
from tests.chat_calls import asked, call
from tests.cli.invoking import recorded
from tests.viewer.test_list_costs import priced
from trace_recorder import TrajectoryRecorder, open_index
from trace_recorder.viewer.followed_runs import FollowedRuns, ServedFiles
from trace_recorder.viewer.parameters import ListRequest, list_request_in
from trace_recorder.viewer.runs import RunList

NAMES = ("oldest.json", "middle.json", "newest.json")
FIRST_ROW = ListRequest(first=0, last=0, since="0")


@pytest.fixture
def runs(tmp_path: Path) -> RunList:
    """A list of three runs in the order of time."""
    for name in NAMES:
        with TrajectoryRecorder(tmp_path / name) as recorder:
            call(recorder, asked("hi", model="gpt-4o"), priced("gpt-4o", 1000))
    return RunList(tmp_path)


def with_costs(runs: RunList) -> list[str]:
    """Return the runs of the list whose costs are known."""
    return [row["id"] for row in runs.page(ListRequest())["runs"] if row["cost"] is not None]


def test_the_newest_run_is_listed_first(runs: RunList) -> None:
    """The newest run comes first.

    A run without a known start has the time of its files; equal times are sorted by name, last first.
    """
    for name in ("a.json", "b.json"):
        (runs.directory / name).write_text('{"llm_interactions": [], "agent_steps": []}')
        os.utime(runs.directory / name, (7, 7))

    rows = runs.page(ListRequest())["runs"]
    assert [row["id"] for row in rows] == [*reversed(NAMES), "b.json", "a.json"]


def test_the_first_rows_come_before_all_files_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer takes at most a third of a second, and says whether more runs follow.

    The last directory is listed later.
    """
    for number in range(12):
        recorded(tmp_path / f"{number % 3}" / f"{number}.json")
    expected = [row["id"] for row in RunList(tmp_path).page(ListRequest())["runs"]]
    ticks = itertools.count(1)
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) / 10)
    scan, listed = os.scandir, []
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(Path(path).name) or scan(path))
    runs = RunList(tmp_path)
    answers = [runs.page(ListRequest(since=""))]
    listed_first = [*listed]
    while answers[-1]["unread"] and len(answers) < 20:
        answers.append(runs.page(ListRequest(since="")))

    assert (len(answers[0]["runs"]) > 0, "2" in listed_first, "2" in listed) == (True, False, True)
    assert [row["id"] for row in answers[-1]["runs"]] == expected


def test_a_run_with_an_unknown_start_is_filtered_by_the_time_of_its_files(runs: RunList) -> None:
    """A filter by time uses the time of a run's files if the start of the run is unknown."""
    (runs.directory / "a.json").write_text('{"llm_interactions": [], "agent_steps": []}')
    os.utime(runs.directory / "a.json", (7, 7))

    answers = [runs.page(list_request_in({name: "2020-01-01"}))["runs"] for name in ("began_since", "began_until")]
    assert [[row["id"] for row in rows] for rows in answers] == [[*reversed(NAMES)], ["a.json"]]


def test_several_simultaneous_searches_read_each_run_once(runs: RunList, monkeypatch: pytest.MonkeyPatch) -> None:
    """If several searches run at the same time, each run is read once, and each search ends."""
    queries = [f"hi -word{number}" for number in range(8)]
    rows = [runs.find(query)["runs"] for query in queries]
    read: list[str] = []
    read_bytes = Path.read_bytes

    def noting(path: Path) -> bytes:
        read.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noting)

    assert ([runs.find(query)["runs"] for query in queries], read) == (rows, [])


def test_unchanged_running_runs_are_read_last_and_in_turn(tmp_path: Path) -> None:
    """Running runs without changes are read last, in turn, only to notice that their writer is gone."""
    recorders = [TrajectoryRecorder(tmp_path / f"{name}.json") for name in "ab"]
    for recorder in recorders:
        recorder.start()
    followed = FollowedRuns(ServedFiles((tmp_path,)))
    followed.look()
    for _ in range(2):
        followed.read_one()
    with TrajectoryRecorder(tmp_path / "new.json"):
        pass
    turns = []
    for _ in range(3):
        followed.look()
        turns.append([[*followed.unread], [*followed.rechecks][-1]])
        followed.read_one()
    for recorder in recorders:
        recorder.finalize()

    assert [unread for unread, _ in turns] == [["new.json"], [], []]
    assert {oldest for _, oldest in turns[1:]} == {"a.json", "b.json"}


def test_the_costs_of_the_newest_runs_come_first(runs: RunList, monkeypatch: pytest.MonkeyPatch) -> None:
    """The costs of the shown row are read first, and then those of the other runs, newest first."""
    read: list[str] = []
    read_bytes = Path.read_bytes

    def noting(path: Path) -> bytes:
        read.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", noting)
    oldest_first = ListRequest(descending=False, first=0, last=0)
    runs.page(oldest_first)
    assert (read, with_costs(runs)) == ([], [])
    while runs.page(ListRequest(descending=False, first=0, last=0, since="0"))["next_seconds"] < 1:
        pass
    assert read == ["oldest.json", "newest.json", "middle.json"]
    assert with_costs(runs) == [*reversed(NAMES)]


def test_the_list_does_not_wait_for_a_run_that_is_read(runs: RunList, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread reads a run, a second thread gets the list in its present state."""
    is_reading, may_read = threading.Event(), threading.Event()
    read_bytes = Path.read_bytes
    version = runs.page(ListRequest())["version"]

    def slowly(path: Path, *arguments: Any) -> bytes:
        is_reading.set()
        assert may_read.wait(60)
        return read_bytes(path, *arguments)

    monkeypatch.setattr(Path, "read_bytes", slowly)
    with ThreadPoolExecutor() as threads:
        try:
            first = threads.submit(runs.page, FIRST_ROW)
            assert is_reading.wait(60)
            second = threads.submit(runs.page, FIRST_ROW).result(60)
            window = threads.submit(runs.page, ListRequest(first=1, last=1, version=version)).result(60)
            assert not first.done()
        finally:
            may_read.set()
        first.result(60)

    assert [row["id"] for row in (*second["runs"], *window["runs"])] == ["newest.json", "middle.json"]
    assert second["runs"][0]["cost"] is None
    assert with_costs(runs) == [*reversed(NAMES)]


def test_between_two_scans_only_running_runs_are_read(tmp_path: Path) -> None:
    """Between two listings of the directory, only running runs are read again. A new file waits for the next one."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", task="live")
    recorder.start()
    runs = FollowedRuns(ServedFiles((tmp_path,)))
    runs.look()
    runs.read_one()
    with TrajectoryRecorder(tmp_path / "new.json"):
        pass
    recorder.finalize(True)
    before = runs.version
    runs.look_at_running()
    assert [*runs.unread] == ["run.json"]
    runs.read_one()
    runs.look_at_running()

    assert (runs.version, [status for _, status in runs.runs.values()], runs.unread) == (before + 1, ["completed"], {})
    runs.look()
    assert [*runs.unread] == ["new.json"]


def test_files_that_are_not_runs_are_counted_and_the_first_are_named(runs: RunList) -> None:
    """The list counts all files that are not runs, and names the first of them."""
    for number in range(150):
        (runs.directory / f"other{number:03}.json").write_text("no JSON")
    answer = runs.page(ListRequest())

    assert (answer["total"], answer["unreadable_count"]) == (3, 150)
    assert [file["id"] for file in answer["unreadable"]] == [f"other{number:03}.json" for number in range(100)]
    assert "other000.json" in answer["unreadable"][0]["error"]


def test_the_command_accepts_an_index_elsewhere(runs: RunList, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With an index from another directory, `view` knows all costs at once."""
    settle(runs.directory)
    index = tmp_path_factory.mktemp("elsewhere") / "index.sqlite3"
    open_index(runs.directory, index).update()
    command = [sys.executable, "-m", "trace_recorder", "view", runs.directory, "--port", "0", "--no-browser"]
    unknown = []
    for options in ([], ["--index", index]):
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout
                base, _, token = server.stdout.readline().split()[-1].partition("/?token=")
                headers = {"authorization": f"Bearer {token}"}
                unknown.append(httpx.get(f"{base}/api/runs", headers=headers, trust_env=False, timeout=60).json())
            finally:
                server.terminate()

    assert [answer["without_costs"] for answer in unknown] == [3, 0]
