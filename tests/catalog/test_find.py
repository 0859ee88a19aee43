"""`find` gives the same as a plain loop over `load_all`: with an index, without one, and with an outdated one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.many_runs import QUERY_FIELDS, make_runs, matches, random_query, record_run, settle
from tests.cli.invoking import invoke, recorded
from tests.searching import IS_SEARCH
from trace_recorder import QueryError, UnreadableRunsError, load, load_all, open_index

QUERIES = (20 if IS_SEARCH else 12) * len(QUERY_FIELDS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory, and directories below it, with runs of many kinds."""
    return make_runs(tmp_path_factory.mktemp("runs"), 24)


def by_loop(directory: Path, query: str) -> list[Path]:
    """Return the runs that match by a plain loop."""
    return [run.path for run in load_all(directory, strict=False) if run.path and matches(run, query)]


def by_where(directory: Path, query: str) -> list[Path]:
    """Return the runs that match by `where=`."""
    return [run.path for run in load_all(directory, where=query, strict=False) if run.path]


def queries(seed: int, count: int) -> Iterator[str]:
    """Return random queries."""
    chosen = random.Random(seed)
    return (random_query(chosen) for _ in range(count))


def test_random_queries_give_the_same_as_a_loop(directory: Path, tmp_path: Path) -> None:
    """Random queries of every field give the same runs with an index and without as a plain loop."""
    index = open_index(directory, tmp_path / "index")
    assert index.update().runs > 15
    runs = [*load_all(directory, strict=False)]
    chosen = random.Random(1)
    telling: Counter[str] = Counter()
    for number in range(QUERIES):
        field = QUERY_FIELDS[number % len(QUERY_FIELDS)]
        query = random_query(chosen, runs, field)
        expected = [run.path for run in runs if matches(run, query)]
        telling[field] += 0 < len(expected) < len(runs)
        assert [*index.find(query)] == expected, query
        if number % 7 == 0:
            assert by_where(directory, query) == expected, query

    assert [field for field in QUERY_FIELDS if not telling[field]] == []


def test_an_outdated_index_gives_no_wrong_answer(tmp_path: Path) -> None:
    """`find` gives the right runs after runs were added, changed, deleted and damaged since the index was written."""
    make_runs(tmp_path, 9)
    index = open_index(tmp_path)
    index.update()
    record_run(tmp_path / "new.json", 50)
    record_run(tmp_path / "below" / "run1.json", 51)
    (tmp_path / "run0.json").unlink()
    (tmp_path / "run0.jsonl").unlink()
    (tmp_path / "run3.jsonl").write_bytes(b"{")
    (tmp_path / "run3.json").write_bytes(b"{")

    for query in queries(2, 25):
        assert [*index.find(query)] == by_where(tmp_path, query) == by_loop(tmp_path, query), query
    settle(tmp_path)
    index.update()
    for query in queries(3, 25):
        assert [*index.find(query)] == by_where(tmp_path, query) == by_loop(tmp_path, query), query


def test_unreadable_files_are_named(directory: Path) -> None:
    """`load_all` reports unreadable files at its end, and `find` names them on stderr and exits with 2."""
    with pytest.raises(UnreadableRunsError, match=r"damaged\.json"):
        [*load_all(directory, where="status:completed")]
    result = invoke("find", "alpha", directory, "--paths")

    assert (result.exit_code, "damaged.json" in result.stderr) == (2, True)
    assert sorted(map(Path, result.stdout.split())) == sorted(by_loop(directory, "alpha"))


@pytest.mark.parametrize("with_index", [False, True])
def test_list_gives_the_same_with_an_index(directory: Path, tmp_path: Path, with_index: bool) -> None:
    """With an index, `list` has the same figures and the same selections of runs as without."""
    options = ["--index", tmp_path / "index"] if with_index else ["--index", tmp_path / "none"]
    if with_index:
        invoke("index", directory, "--index", tmp_path / "index")
    for selection in (
        [],
        ["--failed"],
        ["--tool", "bash"],
        ["--model", "GPT"],
        ["--status", "success", "--sort", "tokens"],
    ):
        without = json.loads(invoke("list", directory, "--json", *selection).stdout)
        assert json.loads(invoke("list", directory, "--json", *selection, *options).stdout) == without
        assert without["trajectories"]


def test_the_rows_of_find_are_those_of_list(directory: Path, tmp_path: Path) -> None:
    """`find` and `list` have the same rows, with an index and without."""
    listed = json.loads(invoke("list", directory, "--json").stdout)["trajectories"]
    invoke("index", directory, "--index", tmp_path / "index")
    for options in ([], ["--index", tmp_path / "index"]):
        assert json.loads(invoke("find", "calls>0", directory, "--json", *options).stdout) == listed


@pytest.mark.parametrize(
    "query",
    [
        "nofield:x",
        '"open',
        "calls>many",
        "success:maybe",
        "since:yesterday",
        "older:2025-06-12",
        "is:completed",
        "text:a",
        "meta:a<b",
        "status: failed",
        "status:faild",
        "status:failed,",
        "tool:>3",
        "calls>",
        "-has:",
        '-""',
        "*",
        "a " * 101,
    ],
)
def test_an_unknown_term_is_refused_at_once(directory: Path, query: str) -> None:
    """An unknown term of a query raises an error that names the known terms."""
    with pytest.raises(QueryError):
        load_all(directory, where=query)
    result = invoke("find", query, directory)
    assert (result.exit_code, result.stdout) == (2, "")


def test_the_database_accepts_every_query_of_the_language(tmp_path: Path) -> None:
    """Queries with NUL characters, many terms, or repeated terms give the same with an index as without."""
    recorded(tmp_path / "run.json", "before\0after")
    settle(tmp_path)
    index = open_index(tmp_path, tmp_path / "index")
    index.update()
    for query in ("before\0after", '"before\0after"', "after " * 100, f"status:completed{',completed' * 2000}"):
        assert [run.path for run in load_all(tmp_path, where=query)] == [*index.find(query)] == [tmp_path / "run.json"]


def test_a_file_with_several_runs_gives_the_matching_runs(tmp_path: Path) -> None:
    """`find` returns only the matching runs of a file that has several runs."""
    rows = [
        {"messages": [{"role": "user", "content": word}, {"role": "assistant", "content": "ok"}]}
        for word in ("one", "two")
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert len([*load_all(tmp_path)]) == 2
    assert [run.llm_interactions[0].input_messages[0].content for run in load_all(tmp_path, where="two")] == ["two"]


def test_where_returns_the_runs_of_load(directory: Path) -> None:
    """`where` returns the same trajectories as `load`."""
    [first, *_] = load_all(directory, where="calls>0", strict=False)
    assert first.path is not None
    assert first == load(first.path)
