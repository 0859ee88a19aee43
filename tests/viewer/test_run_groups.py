"""Groups in the viewer: of the runs that match the filters, in bounded answers, with bounded reading."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from tests.cli.invoking import recorded
from tests.counting import watch
from tests.viewer.serving import groups_in, serving
from tests.waiting import wait_until
from trace_recorder import TrajectoryRecorder
from trace_recorder.catalog.matching import RunState
from trace_recorder.catalog.value_tables import FilesState
from trace_recorder.figures.groups import GroupedRuns
from trace_recorder.viewer.parameters import ListRequest
from trace_recorder.viewer.run_groups import MAX_NAMES, KeptMeasures
from trace_recorder.viewer.runs import RunList


def test_groups_follow_the_filters_of_the_list(tmp_path: Path) -> None:
    """Groups have the runs of the list: those that match its filters and its search, and no unreadable file."""
    for number, success in enumerate([True, True, False, None]):
        recorded(tmp_path / f"{number}.json", answer=f"word{number % 2}", success=success)
    (tmp_path / "bad.json").write_text("{}")
    with serving(tmp_path) as client:
        filters: list[dict[str, str]] = [{}, {"status": "success"}, {"query": "word1"}, {"text": "3.json"}]
        answers = [groups_in(client, "model", **parameters) for parameters in filters]
        wrong = [client.get("/api/groups"), client.get("/api/groups", params={"by": "x"})]

    assert [(one["runs"], one["judged"], one["succeeded"]) for one in answers[0]["groups"]] == [(4, 3, 2)]
    assert [one["runs"] for one in answers] == [4, 2, 2, 1]
    assert [one.status_code for one in wrong] == [400, 400]
    assert "the groupings are model, provider" in wrong[1].json()["error"]


def test_an_answer_has_a_bounded_number_of_groups(tmp_path: Path) -> None:
    """However many names there are, an answer has the first ones, and the number of all."""
    for number in range(MAX_NAMES + 2):
        with TrajectoryRecorder(tmp_path / f"{number}.json", task=f"task {number}") as recorder:
            recorder.annotate("number", number)
    with serving(tmp_path) as client:
        answer = groups_in(client, ["task", "status"])

    assert [(len(one["names"]), one["count"]) for one in answer["by"]] == [(MAX_NAMES, MAX_NAMES + 2), (1, 1)]
    assert (len(answer["groups"]), answer["runs"]) == (MAX_NAMES, MAX_NAMES + 2)


def test_only_changed_runs_are_read_and_only_until_a_time(tmp_path: Path) -> None:
    """A run is read once for each state of its files. After the time, runs wait; a run that is gone is forgotten."""
    names = ["a.json", "b.json", "gone.json"]
    for name in names[:2]:
        recorded(tmp_path / name)
    runs: dict[str, RunState] = {name: (FilesState(1, 1, 1, 1), "completed") for name in names}
    read: list[str] = []

    def path_of(name: str) -> Path | None:
        read.append(name)
        return None if name == "gone.json" else tmp_path / name

    kept = KeptMeasures(lambda _: {})
    assert kept.read(names, runs, path_of, -math.inf) == 3
    assert kept.read(names, runs, path_of, math.inf) == 0
    runs["b.json"] = FilesState(2, 1, 1, 1), "completed"
    assert kept.read(names, runs, path_of, math.inf) == 0
    groups = GroupedRuns(["model"])

    assert kept.fill(groups, names, runs) == 1
    assert groups.comparison().runs == 2
    assert read == [*names, "b.json"]


def test_groups_are_compared_again_only_if_the_list_changed(tmp_path: Path) -> None:
    """A request for the same groups adds no run to groups. Other groupings, and changed runs, are compared."""
    for number in range(3):
        recorded(tmp_path / f"{number}.json", metadata={"number": number})
    runs, added = RunList(tmp_path), Counter[str]()

    def sizes_of_groups(by: str) -> list[int]:
        answer = runs.groups(ListRequest(), [by])
        while answer["unread"]:
            answer = runs.groups(ListRequest(), [by])
        return [group["runs"] for group in answer["groups"]]

    def counted(by: str) -> tuple[list[int], bool]:
        """Return the sizes of the groups, and whether runs were added to groups for them."""
        sizes: list[int] = []
        added.clear()
        watch(
            lambda: sizes.extend(sizes_of_groups(by)),
            lambda frame: added.update(runs=int(frame.f_code is GroupedRuns.add.__code__)),
        )
        return sizes, added["runs"] > 0

    answers = [counted(by) for by in ("meta:number", "meta:number", "status", "meta:number")]
    recorded(tmp_path / "3.json", metadata={"number": 1})
    wait_until(lambda: sizes_of_groups("meta:number") == [2, 1, 1])

    assert answers == [([1, 1, 1], True), ([1, 1, 1], False), ([3], True), ([1, 1, 1], False)]
