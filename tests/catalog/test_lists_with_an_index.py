"""Lists have the same rows with an index as without, and take from it only the rows that they show."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.many_runs import make_runs, random_query, record_run, settle
from tests.cli.invoking import invoke
from tests.counting import watch
from trace_recorder import TrajectoryRecorder, load, open_index
from trace_recorder.catalog.query import parse_query
from trace_recorder.catalog.selection import SORTS, Selection, Sort
from trace_recorder.cli.list_runs import listing
from trace_recorder.viewer.parameters import COLUMNS, ListRequest, list_request_in
from trace_recorder.viewer.runs import RunList

RUNS = 30
FILE_READERS = ("document_ends", "read_records", "load")
"""The functions of the package that read the files of a run."""


def calls_of(act: Callable[[], object]) -> Counter[str]:
    """Return how often an act calls each function of the package, by the name of the function."""
    counted: Counter[str] = Counter()
    watch(act, lambda frame: counted.update([frame.f_code.co_name]))
    return counted


def record_relatives(directory: Path, seed: int) -> None:
    """Record a fork, a replay and a child of a run."""
    origin = {"trajectory_id": load(directory / "run0.json").trajectory_id, "file": "run0.jsonl"}
    for name, metadata in {
        "fork.json": {"forked_from": {**origin, "interaction_id": "c1", "step_number": 1}},
        "replay.json": {"replay_of": origin},
    }.items():
        with TrajectoryRecorder(directory / name, task=name, metadata=metadata) as run:
            run.record_llm_interaction([{"role": "user", "content": f"{seed}"}], {"content": "yes"}, "openai", "gpt-4o")


def change(directory: Path) -> None:
    """Add, change, delete and move runs."""
    record_run(directory / "new.json", 70)
    record_run(directory / "run3.json", 71)
    below = directory / "below"
    for suffix in (".json", ".jsonl"):
        (below / f"run1{suffix}").unlink()
        shutil.move(below / f"run4{suffix}", directory / f"moved{suffix}")
        shutil.copy(directory / f"run6{suffix}", below / f"run7{suffix}")
    (directory / "run9.json").unlink()


@pytest.fixture(scope="module", params=["as it is now", "out of date", "made by two writers"])
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a directory of runs, and an index that is up to date, older than some runs, or updated by two writers."""
    place = tmp_path_factory.mktemp("lists")
    directory, index = make_runs(place / "runs", RUNS), place / "index"
    record_relatives(directory, 1)
    settle(directory)
    open_index(directory, index).update()
    if request.param != "as it is now":
        change(directory)
    if request.param == "made by two writers":
        settle(directory)
        command = [sys.executable, "-m", "trace_recorder", "index", directory, "--index", index]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as other:
            open_index(directory, index).update(transaction_runs=1)
            record_run(directory / "while.json", 72)
        assert other.returncode == 0
    return directory, index


ORDERS = [(sort, reverse) for sort in SORTS for reverse in (False, True)]


@pytest.mark.parametrize(("sort", "reverse"), ORDERS, ids=str)
def test_every_order_is_the_same(places: tuple[Path, Path], sort: Sort, reverse: bool) -> None:
    """Each order of `list`, with any limit, has the same rows with an index as without."""
    directory, index = places
    for limit in (None, 1, 7):
        selection = Selection(sort=sort, reverse=reverse, limit=limit)
        without, known = (listing([directory], selection, index=at) for at in (None, index))
        assert (known.others, [*known.tree_rows()]) == (without.others, [*without.tree_rows()])


@pytest.mark.parametrize("options", [(), ("--sort", "cost", "--reverse", "--limit", "7")], ids=str)
def test_a_list_is_printed_the_same(places: tuple[Path, Path], options: tuple[str, ...]) -> None:
    """`list` prints the same with an index as without, as a table and as JSON."""
    directory, index = places
    for form in ((), ("--json",)):
        without = invoke("list", directory, *options, *form)
        assert invoke("list", directory, *options, *form, "--index", index).output == without.output


def test_random_queries_select_the_same_rows(places: tuple[Path, Path]) -> None:
    """`list --where` and `find` have the same rows with an index as without, for random queries."""
    directory, index = places
    chosen = random.Random(7)
    for number in range(25):
        query = random_query(chosen)
        selection = Selection(parse_query(query), chosen.choice(SORTS), number % 2 == 0, chosen.choice([None, 5]))
        rows = [*listing([directory], selection).rows()]
        assert [*listing([directory], selection, index=index).rows()] == rows, query


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_of_the_viewer_sorts_the_same(places: tuple[Path, Path], column: str) -> None:
    """The viewer's list has the same rows, counts and relations with an index as without, in each order."""
    directory, index = places
    plain, known = (with_costs(RunList(directory, index=at)) for at in (None, index))
    for sign in ("", "-"):
        request = list_request_in({"sort": sign + column})
        expected, found = plain.page(request), known.page(request)
        for member in ("runs", "count", "statuses", "models", "total", "unreadable", "without_costs"):
            assert found[member] == expected[member]
    for name in ("run0.json", "fork.json", "moved.json"):
        assert known.relations_of(name, ()) == plain.relations_of(name, ())


@pytest.mark.parametrize(
    "asked",
    [{"text": "task alp"}, {"model": "gpt-4o"}, {"errors": "yes"}, {"cost": "0.0001"}, {"status": "failed"}],
    ids=str,
)
def test_every_filter_of_the_viewer_is_the_same(places: tuple[Path, Path], asked: dict[str, str]) -> None:
    """A filter of the viewer's list matches the same runs with an index as without."""
    directory, index = places
    request = list_request_in(asked)
    plain, known = (with_costs(RunList(directory, index=at)).page(request) for at in (None, index))
    assert known["runs"] == plain["runs"]


def with_costs(runs: RunList) -> RunList:
    """Return the list after all calls were read for the costs."""
    while runs.page(ListRequest(since="0"))["next_seconds"] < 1:
        pass
    return runs


# ── what is read ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs which all are in its index."""
    place = tmp_path_factory.mktemp("indexed")
    for seed in range(RUNS):
        record_run(place / f"run{seed}.json", seed)
    settle(place)
    assert open_index(place).update().runs == RUNS
    return place


@pytest.mark.parametrize("options", [(), ("--sort", "cost", "--reverse"), ("--where", "task:task")], ids=str)
def test_a_limited_list_reads_only_its_rows(indexed: Path, options: tuple[str, ...]) -> None:
    """`list --limit 3` takes three rows from the index, and reads no file of a run."""
    counted = calls_of(lambda: invoke("list", indexed, "--limit", "3", *options))

    assert counted["row_of_json"] == 3
    assert [counted[reader] for reader in FILE_READERS] == [0, 0, 0]


def test_a_list_reads_a_row_when_it_prints_it(indexed: Path) -> None:
    """The first row of a list is there before the other rows are read, with an index and without one."""
    for index in (None, indexed / "no index"):
        listed = listing([indexed], index=index)
        rows = listed.rows()
        first, rest = calls_of(lambda: next(rows)), calls_of(lambda: [*rows])  # noqa: B023 - called at once
        read = "row_of_json" if index is None else "run_costs"
        assert (first[read], rest[read]) == (1, RUNS - 1)


def test_a_row_that_the_index_has_no_more_is_read(indexed: Path, tmp_path: Path) -> None:
    """If an index is updated or deleted while a list is printed, the list has the rows of the files."""
    directory = shutil.copytree(indexed, tmp_path / "runs")
    index = tmp_path / "index"
    open_index(directory, index).update()
    expected = [*listing([directory], index=index).rows()]
    deleted = listing([directory], index=index)
    index.unlink()
    assert [*deleted.rows()] == expected

    open_index(directory, index).update()
    updated = listing([directory], index=index)
    record_run(directory / "run5.json", 80)
    (directory / "run6.json").unlink()
    (directory / "run6.jsonl").unlink()
    settle(directory)
    open_index(directory, index).update()
    rows = {row.file: row for row in updated.rows()}
    assert rows["run5.json"].trajectory_id == load(directory / "run5.json").trajectory_id
    assert rows.keys() == {row.file for row in expected} - {"run6.json"}


def test_a_page_of_the_viewer_reads_only_its_rows(indexed: Path) -> None:
    """The viewer takes the rows of a page from the index, and reads no file of a run."""
    runs = RunList(indexed)
    pages: list[dict[str, Any]] = []
    first = calls_of(lambda: pages.append(runs.page(ListRequest(last=4, since=""))))
    version = pages[0]["version"]
    later = calls_of(lambda: pages.append(runs.page(ListRequest(first=10, last=14, version=version))))

    assert (pages[0]["total"], pages[0]["unread"], len(pages[0]["runs"]), len(pages[1]["runs"])) == (RUNS, 0, 5, 5)
    assert [counted["_with_files"] for counted in (first, later)] == [5, 5]
    assert [counted[reader] for counted in (first, later) for reader in FILE_READERS] == [0] * 6
    assert len(json.dumps(pages[1])) < 8000


def test_the_viewer_lists_the_rows_of_a_deleted_index(indexed: Path, tmp_path: Path) -> None:
    """If the index is deleted while the viewer runs, the viewer reads the rows of a page from files."""
    index = tmp_path / "index"
    open_index(indexed, index).update()
    runs = RunList(indexed, index=index)
    before = runs.page(ListRequest())
    index.unlink()
    with_costs(runs)

    assert runs.page(ListRequest())["runs"] == before["runs"]


def test_a_run_and_a_link_to_it_take_one_row_of_a_limit(tmp_path: Path) -> None:
    """If two paths lead to the oldest run, a list of two runs has the next run too, with an index as without."""
    for name in ("a", "b", "c"):
        record_run(tmp_path / f"{name}.json", 1)
    (tmp_path / "a.json").unlink()
    (tmp_path / "z.jsonl").symlink_to("a.jsonl")
    settle(tmp_path)
    without = invoke("list", tmp_path, "--limit", "2", "--json").stdout
    open_index(tmp_path).update()

    assert [row["file"] for row in json.loads(without)["trajectories"]] == ["a.jsonl", "b.json"]
    assert invoke("list", tmp_path, "--limit", "2", "--json").stdout == without
