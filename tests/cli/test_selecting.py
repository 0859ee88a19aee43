"""All commands that select runs use the runs of `find` in the same order, with an index and without."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.catalog.many_runs import make_runs, matches, random_query, record_run, settle
from tests.cli.invoking import invoke, recorded
from tests.searching import seeds
from trace_recorder import Trajectory, load, load_all, open_index
from trace_recorder.catalog.selection import SORTS
from trace_recorder.figures.cost import costs_of_calls
from trace_recorder.recording.amend import append_annotation

QUERIES = seeds(4, 40)
COMMANDS = ("list", "find", "stats", "grep", "export", "score")
ALWAYS_ONE = "def one(trajectory):\n    return 1.0\n"


class Runs(NamedTuple):
    """A directory of runs, and the option that names its index, which may be out of date or missing."""

    directory: Path
    index: Sequence[object]


@pytest.fixture(scope="module", params=["no index", "an index", "an old index"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Return a directory, and directories below it, with runs of many kinds."""
    place = tmp_path_factory.mktemp("selecting")
    (place / "functions.py").write_text(ALWAYS_ONE)
    make_runs(place / "runs", 18)
    (place / "runs" / "damaged.json").unlink()
    if request.param != "no index":
        open_index(place / "runs", place / "index").update()
    if request.param == "an old index":
        record_run(place / "runs" / "new.json", 60)
        record_run(place / "runs" / "run3.json", 61)
        (place / "runs" / "below" / "run1.json").unlink()
        (place / "runs" / "below" / "run1.jsonl").unlink()
    return Runs(place / "runs", ["--index", place / "index"])


def sort_key(run: Trajectory, sort: str) -> float | None:
    """Return the figure by which a run is sorted, by a plain calculation."""
    usages = [call.response.usage for call in run.llm_interactions]
    counts = [usage.input_tokens for usage in usages] + [usage.output_tokens for usage in usages]
    known = [count for count in counts if count is not None]
    return {
        "time": run.started_at.timestamp() if run.started_at else None,
        "duration": run.execution_time,
        "cost": costs_of_calls(run.llm_interactions).amount,
        "tokens": sum(known) if known else None,
        "calls": len(run.llm_interactions),
    }[sort]


def expected_runs(runs: Sequence[Trajectory], query: str, sort: str, reverse: bool, limit: int | None) -> list[Path]:
    """Return the selected runs by a plain loop: the known figures in order, and then the unknown ones."""
    selected = [run for run in runs if matches(run, query)]
    selected.sort(key=lambda run: (str(run.start_time), str(run.path)), reverse=reverse)
    figures = [(sort_key(run, sort), run) for run in selected]
    known = sorted([pair for pair in figures if pair[0] is not None], key=lambda pair: pair[0] or 0, reverse=reverse)
    ordered = [run for _, run in known] + [run for figure, run in figures if figure is None]
    return [run.path for run in ordered[:limit] if run.path]


def files_of(output: str) -> list[Path]:
    """Return the paths that a command printed, one a line."""
    return [*map(Path, output.splitlines())]


def listed(runs: Runs, *options: object) -> list[Path]:
    """Return the runs that `list` selects."""
    rows = json.loads(invoke("list", runs.directory, "--json", *runs.index, *options).stdout)
    return [Path(row["path"]) for row in rows["trajectories"]]


def searched(runs: Runs, *options: object) -> list[Path]:
    """Return the runs in which `grep` finds any text. Each run has one."""
    return files_of(invoke("grep", "-l", ".", runs.directory, *runs.index, *options).stdout)


def scored(runs: Runs, *options: object) -> list[Path]:
    """Return the runs that `score` scores."""
    function = f"{runs.directory.parent / 'functions.py'}:one"
    fixed = ("--reward", function, "--dry-run", "--recursive", *runs.index)
    return files_of("\n".join(re.findall(r"(.*): one 1\n", invoke("score", runs.directory, *fixed, *options).stdout)))


def exported(runs: Runs, *options: object) -> list[Path]:
    """Return the runs that `export` writes."""
    paths = {run.trajectory_id: run.path for run in load_all(runs.directory)}
    output = invoke("export", runs.directory, "--format", "invariant", *runs.index, *options).stdout
    rows = map(json.loads, output.splitlines()[1:])
    return [path for row in rows if (path := paths[row["metadata"]["trajectory_id"]]) is not None]


def counted(paths: Sequence[object], *options: object) -> dict[str, Any] | None:
    """Return the figures of `stats`, or None if it counted no run."""
    result = invoke("stats", *paths, "--json", *options)
    return json.loads(result.stdout) if result.stdout else None


def selections(runs: Sequence[Trajectory]) -> list[tuple[str, str, bool, int | None]]:
    """Return random queries, each with an order and often with a limit."""
    chosen = random.Random(7)
    return [
        (random_query(chosen, runs), SORTS[number % len(SORTS)], number % 3 == 0, chosen.choice([None, 1, 2, 5]))
        for number in QUERIES
    ] + [("-status:running", sort, True, 7) for sort in SORTS]


def test_every_command_uses_the_runs_of_find_in_the_same_order(runs: Runs) -> None:
    """With the same query, order and limit, each command uses the runs that a plain loop selects."""
    loaded = [*load_all(runs.directory)]
    lengths = set()
    for query, sort, reverse, limit in selections(loaded):
        order = ["--sort", sort, *(["--reverse"] if reverse else []), *(["--limit", limit] if limit else [])]
        expected = expected_runs(loaded, query, sort, reverse, limit)
        lengths.add(len(expected))

        found = invoke("find", *order, "--paths", *runs.index, "--", query, runs.directory)
        assert files_of(found.stdout) == expected, (query, order)
        commands: list[Callable[..., list[Path]]] = [listed, searched, scored, exported]
        for command in commands:
            assert command(runs, "--where", query, *order) == expected, (command, query, order)
        figures = counted([runs.directory], "--where", query, *order, *runs.index)
        assert figures == (counted(expected) if expected else None), (query, order)
    assert len(lengths) > 3


def test_an_index_alone_answers(tmp_path: Path) -> None:
    """If an index has all runs, no file of a run is read to select, sort and count runs."""
    make_runs(tmp_path / "runs", 8)
    (tmp_path / "runs" / "damaged.json").unlink()
    open_index(tmp_path / "runs", tmp_path / "index").update()
    runs = Runs(tmp_path / "runs", ["--index", tmp_path / "index"])
    selected = ["--where", "-is:failed calls>0", "--sort", "cost", "--limit", 3]
    before = listed(runs, *selected), counted([runs.directory], *selected, *runs.index)
    for file in runs.directory.rglob("*.json*"):
        state = file.stat()
        file.write_bytes(b"?" * state.st_size)
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))

    assert (listed(runs, *selected), counted([runs.directory], *selected, *runs.index)) == before
    assert len(before[0]) == 3


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("query", ["status:faild", '"open', "older:2025-06-12", "-is:ok"])
def test_a_wrong_query_is_refused_before_a_run_is_read(command: str, query: str, tmp_path: Path) -> None:
    """A wrong query is refused with one sentence and the exit code 2, and nothing is written."""
    path = recorded(tmp_path / "run.json")
    before = path.read_bytes()
    required = {"grep": ["a"], "export": ["--format", "trl"], "score": ["--reward", "os:getcwd"]}.get(command, [])
    where = ["--", query] if command == "find" else [*required, "--where", query]
    result = invoke(command, *where, tmp_path)

    assert (result.exit_code, result.stdout, path.read_bytes()) == (2, "", before)
    assert query.split(":", maxsplit=1)[0].lstrip('-"') in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("options", [["--sort", "size"], ["--limit", "0"]])
def test_a_wrong_order_is_refused(command: str, options: list[str], tmp_path: Path) -> None:
    """An order that no command has, and a limit of no runs, are misuse."""
    recorded(tmp_path / "run.json")
    required = {"grep": ["a"], "find": ["a"], "export": ["--format", "trl"], "score": ["--reward", "os:getcwd"]}
    assert invoke(command, *required.get(command, []), tmp_path, *options).exit_code == 2


def test_a_query_that_begins_with_a_minus_needs_no_dashes(tmp_path: Path) -> None:
    """`--where` takes a query that begins with a minus."""
    good, bad = recorded(tmp_path / "good.json"), recorded(tmp_path / "bad.json", success=False)

    assert listed(Runs(tmp_path, []), "--where", "-is:failed") == [good]
    assert listed(Runs(tmp_path, []), "--where", "-is:success") == [bad]


def test_options_and_the_query_are_terms_of_one_query(tmp_path: Path) -> None:
    """A run has to match the query and all options."""
    for name, success in (("a", True), ("b", False), ("c", False)):
        recorded(tmp_path / f"{name}.json", name, success=success, metadata={"tags": [name]})

    assert listed(Runs(tmp_path, []), "--failed", "--where", "-tag:b", "--model", "OPENAI") == [tmp_path / "c.json"]


def test_score_selects_in_the_directory_alone(tmp_path: Path) -> None:
    """Without `--recursive`, `score --where` scores no run of a directory below, with an index and without."""
    (tmp_path / "functions.py").write_text(ALWAYS_ONE)
    (tmp_path / "runs" / "below").mkdir(parents=True)
    own = recorded(tmp_path / "runs" / "own.json")
    recorded(tmp_path / "runs" / "below" / "other.json")
    settle(tmp_path / "runs")
    fixed = ["--reward", f"{tmp_path / 'functions.py'}:one", "--dry-run", "--where", "is:success"]
    for _ in range(2):
        assert invoke("score", tmp_path / "runs", *fixed).stdout.splitlines()[0] == f"{own}: one 1"
        assert "scored 1 of 1 run" in invoke("score", tmp_path / "runs", *fixed).stdout.replace("would score", "scored")
        open_index(tmp_path / "runs").update()


@pytest.mark.parametrize(("command", "code"), [("stats", 1), ("export", 1), ("score", 1), ("grep", 2)])
def test_a_file_that_may_match_but_cannot_be_read_is_a_failure(command: str, code: int, tmp_path: Path) -> None:
    """A command uses the other runs, reports the file once, and exits with its code for failures."""
    (tmp_path / "functions.py").write_text(ALWAYS_ONE)
    recorded(tmp_path / "runs" / "good.json")
    (tmp_path / "runs" / "damaged.json").write_text("{}")
    required = {
        "grep": ["q"],
        "export": ["--format", "trl"],
        "score": ["--dry-run", "--reward", f"{tmp_path / 'functions.py'}:one"],
    }
    result = invoke(command, *required.get(command, []), tmp_path / "runs", "--where", "is:success")

    assert (result.exit_code, result.stderr.count("damaged.json")) == (code, 1)
    assert result.stdout


@pytest.mark.parametrize("command", ["stats", "export", "grep"])
def test_a_query_without_a_match_is_said(command: str, tmp_path: Path) -> None:
    """If no run matches, a command says so and does nothing."""
    recorded(tmp_path / "run.json")
    required = {"grep": ["q"], "export": ["--format", "trl"]}.get(command, [])
    result = invoke(command, *required, tmp_path, "--where", "is:failed")

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "trace-recorder: no run matches\n")


def test_the_journal_decides_if_its_document_is_older(tmp_path: Path) -> None:
    """A tag that is in the journal and not yet in the document counts, as after a kill between the two writes."""
    path = recorded(tmp_path / "run.json")
    document = path.read_bytes()
    append_annotation(path, "tags", ["audit"])
    path.write_bytes(document)

    assert load(path).annotations == {"tags": ["audit"]}
    assert listed(Runs(tmp_path, []), "--where", "tag:audit") == [path]
    assert listed(Runs(tmp_path, []), "--where", "-tag:audit") == []
