"""Commands and the viewer's list give the same with an index, even an outdated one, as without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.many_runs import make_runs, record_run
from tests.cli.invoking import invoke, recorded
from trace_recorder import compare, load, load_all, open_index
from trace_recorder.figures.stats import Stats
from trace_recorder.viewer.parameters import ListRequest
from trace_recorder.viewer.runs import RunList

COMMANDS = (
    ["stats", "--json"],
    ["stats", "--by", "model", "--json"],
    ["stats", "--by", "task", "--by", "tool", "--json"],
    ["stats", "--by", "meta:env", "--against", "b"],
    ["stats", "--by", "model", "--where", "tool:bash success:yes"],
    ["list", "--json"],
    ["list", "--errors", "--sort", "cost"],
    ["grep", "-F", "alpha"],
    ["grep", "foo-bar_baz"],
    ["grep", "-l", "exit code 1"],
    ["grep", "-F", "code 1\nx"],
    ["grep", "a.pha", "--json"],
    ["grep", "-i", "ALPHA"],
    ["grep", "nowhere at all"],
)


@pytest.fixture(scope="module", params=["as it is now", "out of date"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of runs whose index is up to date, or older than some runs."""
    place = tmp_path_factory.mktemp("many")
    make_runs(place / "runs", 14)
    open_index(place / "runs", place / "index").update()
    if request.param == "out of date":
        record_run(place / "runs" / "new.json", 60)
        record_run(place / "runs" / "run3.json", 61)
        (place / "runs" / "below" / "run1.json").unlink()
        (place / "runs" / "below" / "run1.jsonl").unlink()
    return place / "runs"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_gives_the_same_without_an_index(directory: Path, command: list[str]) -> None:
    """A command has the same output, messages and exit code with an index as without."""
    name, *options = command
    without = (
        invoke(name, *options[-1:], directory, *options[:-1]) if name == "grep" else invoke(name, directory, *options)
    )
    index = ["--index", directory.parent / "index"]
    given = [name, *options[-1:], directory, *options[:-1]] if name == "grep" else [name, directory, *options]
    with_index = invoke(*given, *index)

    assert (with_index.stdout, with_index.stderr, with_index.exit_code) == (
        without.stdout,
        without.stderr,
        without.exit_code,
    )


def test_a_run_named_by_several_paths_counts_once(tmp_path: Path) -> None:
    """A run that is named by several paths is counted once, whether or not it matches."""
    make_runs(tmp_path, 6)
    open_index(tmp_path).update()
    recorded(tmp_path / "new.json", "alpha")
    once = invoke("find", "id:none", tmp_path)
    twice = invoke("find", "id:none", tmp_path / "below" / "..", tmp_path)

    assert "read 2 runs of 9" in once.stderr
    assert "read 2 runs of 9" in twice.stderr


def with_all_costs(runs: RunList) -> dict[str, Any]:
    """Return the list after all calls were read for the costs."""
    while runs.page(ListRequest(since="0"))["next_seconds"] < 1:
        pass
    return runs.page(ListRequest())


def test_the_viewer_s_list_is_the_same(directory: Path) -> None:
    """The viewer's list has the same rows and costs with an index, which spares it the reading of most calls."""
    expected = with_all_costs(RunList(directory))
    index = directory / ".trace-recorder.sqlite3"
    index.write_bytes((directory.parent / "index").read_bytes())
    index.unlink()
    open_index(directory).update()
    found = RunList(directory)
    first = found.page(ListRequest())
    last = with_all_costs(found)
    index.unlink()
    elsewhere = RunList(directory, index=directory.parent / "index")
    unknown = [RunList(directory).page(ListRequest())["without_costs"], elsewhere.page(ListRequest())["without_costs"]]

    assert first["without_costs"] <= 3
    assert unknown[1] < unknown[0]
    assert with_all_costs(elsewhere)["runs"] == expected["runs"]
    for member in ("runs", "unreadable", "without_costs"):
        assert last[member] == expected[member]


@pytest.mark.parametrize("by", [["model"], ["task", "agent"], ["tool"], ["day"]], ids=" ".join)
def test_groups_are_the_same_in_python_and_in_the_viewer(directory: Path, by: list[str]) -> None:
    """Groups from loaded runs are those of the command and of the viewer, each with an index and without one."""
    index = directory.parent / "index"
    words = [word for one in by for word in ("--by", one)]
    commands = [
        json.loads(invoke("stats", directory, *words, "--json", *more).stdout) for more in ((), ("--index", index))
    ]
    unreadable = {command.pop("unreadable") for command in commands}
    expected = compare(load_all(directory, strict=False), by=by).to_json()
    viewers = [RunList(directory), RunList(directory, index=index)]
    answers = [viewer.groups(ListRequest(), by) for viewer in viewers]
    for number, viewer in enumerate(viewers):
        while answers[number]["unread"]:
            answers[number] = viewer.groups(ListRequest(), by)

    assert unreadable == {1}
    assert commands == [expected, expected]
    assert sum(group["runs"] for group in expected["groups"]) >= 15
    for answer in answers:
        assert [{**one, "count": len(one["names"])} for one in expected["by"]] == answer["by"]
        assert [answer[name] for name in expected if name != "by"] == [
            value for name, value in expected.items() if name != "by"
        ]


def test_figures_stored_as_text_stay_the_same(directory: Path) -> None:
    """Figures of runs that were stored as text and read back give the same totals."""
    paths = [path for path in sorted(directory.rglob("run*.json")) if path.is_file()]
    plain, read_back = Stats(), Stats()
    for path in paths:
        one = Stats()
        one.add(load(path))
        plain.merge(one)
        read_back.merge(Stats.from_text(one.to_text()))

    assert plain == read_back
    assert json.dumps(plain.to_json()) == json.dumps(read_back.to_json())
