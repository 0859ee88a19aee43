"""A run that was started inside another run names its parent, and every place that shows a run shows the parent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.catalog.many_runs import settle
from tests.chat_calls import asked, call, said
from tests.cli.invoking import invoke
from tests.viewer.serving import serving
from trace_recorder import TrajectoryRecorder, fork, load, to_dataframe, validate
from trace_recorder.reading.document import from_document


class Family(NamedTuple):
    """A parent run, a run of a process that it started, and a fork of it, with the id of the parent run."""

    directory: Path
    identity: str


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    directory = tmp_path_factory.mktemp("family")
    with TrajectoryRecorder(directory / "parent.json", task="the parent") as parent:
        call(parent, asked("go"), said("gone"))
        with TrajectoryRecorder(directory / "other.json"):
            pass
        identity = parent.child_environment()["TRACE_RECORDER_PARENT"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRACE_RECORDER_PARENT", identity)
        with TrajectoryRecorder(directory / "child.json", task="the child") as child:
            call(child, asked("go"), said("gone"))
    forked = TrajectoryRecorder(directory / "fork.json")
    with fork(directory / "parent.json", at="llm_1", recorder=forked) as branch:
        call(branch, asked("go"), said("gone again"))
    return Family(directory, identity)


def test_a_run_and_its_document_state_the_parent(family: Family) -> None:
    """A run of a process, and a fork, have the id of their parent; a run without a parent has no such member."""
    documents = {name: json.loads((family.directory / f"{name}.json").read_bytes()) for name in _NAMES}
    runs = {name: load(family.directory / f"{name}.jsonl") for name in _NAMES}

    assert {name: run.parent for name, run in runs.items()} == dict.fromkeys(_NAMES, family.identity) | {"parent": None}
    assert runs["parent"].trajectory_id == family.identity
    assert documents["child"]["parent"] == from_document(documents["child"], "child").parent == family.identity
    assert "parent" not in documents["parent"]
    assert [validate(family.directory / f"{name}.json").findings for name in _NAMES] == [(), (), ()]


_NAMES = ("parent", "child", "fork")


def test_show_names_the_parent(family: Family) -> None:
    """The header of a fork names the file of its parent instead."""
    headers = {name: invoke("show", family.directory / f"{name}.json").output.splitlines() for name in _NAMES}
    parents = {
        name: [line.split()[1] for line in lines if line.split()[:1] == ["parent"]] for name, lines in headers.items()
    }

    assert parents == {"parent": [], "child": [family.identity], "fork": []}
    assert "fork of parent.jsonl at llm_1" in "\n".join(headers["fork"])


def test_list_draws_a_run_below_its_parent(family: Family) -> None:
    """`list --json` has both ids. A run whose parent is not listed has the id in a column."""
    lines = invoke("list", family.directory).output.splitlines()
    rows = json.loads(invoke("list", family.directory, "--json").output)["trajectories"]
    alone = invoke("list", family.directory / "child.json").output.splitlines()

    assert [line[:12].rstrip() for line in lines[1:]] == ["parent.json", "└ child.json", "└ fork.json", "other.json"]
    assert "parent" not in lines[0]
    assert {row["file"]: row["parent"] for row in rows} == {
        **dict.fromkeys(("child.json", "fork.json"), family.identity),
        **dict.fromkeys(("parent.json", "other.json")),
    }
    assert [row["trajectory_id"] for row in rows if row["file"] == "parent.json"] == [family.identity]
    assert (alone[0].split()[-1], alone[1].split()[-1]) == ("parent", family.identity)


def test_find_selects_the_runs_of_a_parent(family: Family, tmp_path: Path) -> None:
    """`parent:` is a term of the query language, for files and for the rows of an index."""
    settle(family.directory)
    index = tmp_path / "index"
    outputs = [invoke("find", f"parent:{family.identity}", family.directory, "--json").output]
    invoke("index", family.directory, "--index", index)
    outputs.append(invoke("find", f"parent:{family.identity}", family.directory, "--json", "--index", index).output)

    assert index.is_file()
    names = [[row["file"] for row in json.loads(output)] for output in outputs]
    assert names == [["child.json", "fork.json"]] * 2


def test_the_table_of_runs_has_the_parent(family: Family) -> None:
    [row] = to_dataframe(load(family.directory / "child.json"), of="runs", library="polars").to_dicts()
    assert row["parent"] == family.identity


def test_the_viewer_links_a_run_and_its_parent(family: Family) -> None:
    """A fork is among the forks of its parent, and not among its child runs."""
    with serving(family.directory) as viewer:
        rows = {row["id"]: row for row in viewer.get("/api/runs").json()["runs"]}
        parent, child = (viewer.get(f"/api/runs/{name}.json").json() for name in ("parent", "child"))

    assert (rows["child.json"]["parent"], rows["child.json"]["origin"]) == (family.identity, "parent.json")
    assert child["run"]["parent"] == family.identity
    assert child["relations"]["parent"] == "parent.json"
    assert parent["relations"]["children"] == ["child.json"]
    assert [fork["id"] for fork in parent["relations"]["forks"]] == ["fork.json"]


@pytest.mark.parametrize("format_name", ["atif", "otlp", "invariant"])
def test_a_format_carries_the_parent(family: Family, format_name: str, tmp_path: Path) -> None:
    """A run that is exported and imported again has the same parent."""
    path = tmp_path / "exported.json"
    invoke("export", family.directory / "child.json", "--format", format_name, "--output", path)
    assert load(path).parent == family.identity
