"""The costs of runs in the list: each is the sum over the run's calls, computed after the list is first shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chat_calls import Answer, asked, call, said
from tests.cli.invoking import invoke
from tests.viewer.serving import serving
from trace_recorder import TrajectoryRecorder
from trace_recorder.figures.cost import table_name
from trace_recorder.values.messages import Payload


def priced(model: str, tokens: int, cost: float | None = None) -> Answer:
    """Return a model's response with these token counts and the provider's own cost."""
    whole = json.loads(said("yes").body)
    usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
    return Answer(json.dumps(whole | {"model": model, "usage": usage | ({"cost": cost} if cost else {})}).encode())


def record(path: Path, *answers: Answer) -> None:
    with TrajectoryRecorder(path) as recorder:
        for answer in answers:
            call(recorder, asked("hi", model=json.loads(answer.body)["model"]), answer)


@pytest.fixture
def answers(tmp_path: Path) -> dict[str, Payload]:
    """Return the first answer of the list, an answer after all calls were read, and the outlines of the runs."""
    record(tmp_path / "estimated.json", priced("gpt-4o", 1000), priced("gpt-4o-mini", 5000), priced("nobody-1", 7))
    record(tmp_path / "stated.json", priced("gpt-4o", 1000, cost=0.25))
    record(tmp_path / "unknown.json", priced("nobody-1", 7))
    with serving(tmp_path) as client:
        first = client.get("/api/runs").json()
        second = first
        while second["next_seconds"] < 1:  # a client waits for a third of a second at most
            second = client.get("/api/runs", params={"since": first["version"]}).json()
        outlines = {run["id"]: client.get(f"/api/runs/{run['id']}").json() for run in first["runs"]}
    return {"first": first, "second": second, "outlines": outlines}


def costs(listed: Payload) -> dict[str, Payload]:
    return {run["id"]: (run["cost"], run["cost_estimated"], run["calls_without_price"]) for run in listed["runs"]}


def test_the_list_comes_before_its_costs(answers: dict[str, Payload]) -> None:
    """The first answer has only the figures that files contain; the next answers have the costs."""
    assert costs(answers["first"]) == {
        "estimated.json": (None, None, None),
        "stated.json": (0.25, False, None),
        "unknown.json": (None, None, None),
    }
    assert (answers["first"]["without_costs"], answers["second"]["without_costs"]) == (3, 0)
    assert answers["first"]["next_seconds"] < 1
    assert answers["first"]["prices"] == table_name()


def test_a_run_has_the_same_cost_in_the_list_and_on_its_page(answers: dict[str, Payload]) -> None:
    """The list has the same cost as the run's page. A call without a known price is counted apart, not as 0."""
    calls = answers["outlines"]["estimated.json"]["interactions"]
    assert costs(answers["second"]) == {
        "estimated.json": (pytest.approx(calls[0]["cost"] + calls[1]["cost"]), True, 1),
        "stated.json": (0.25, False, 0),
        "unknown.json": (None, None, 1),
    }
    assert [call["cost"] for call in calls[:2]] == [pytest.approx(0.0026), pytest.approx(0.000756)]
    assert calls[2]["cost"] is None


def test_the_command_lists_the_same_costs(answers: dict[str, Payload], tmp_path: Path) -> None:
    """`list` prints and sorts by the costs of the viewer, and marks estimates and calls without a price."""
    listed = json.loads(invoke("list", tmp_path, "--sort", "cost", "--json").output)["trajectories"]
    lines = invoke("list", tmp_path, "--sort", "cost").output.splitlines()

    costs_of_rows = {one["file"]: (one["cost"], one["cost_estimated"], one["calls_without_price"]) for one in listed}
    assert costs_of_rows == costs(answers["second"])
    assert [one["file"] for one in listed] == ["estimated.json", "stated.json", "unknown.json"]
    assert "  ~0.0034 + ?  " in lines[1]
    assert "  0.2500  " in lines[2]


def test_a_run_with_unreadable_calls_has_no_cost(tmp_path: Path) -> None:
    """The viewer and `list` ignore the figures at the end of a damaged document."""
    record(tmp_path / "run.json", priced("gpt-4o", 1000, cost=0.25))
    (tmp_path / "run.jsonl").unlink()
    path = tmp_path / "run.json"
    path.write_text(path.read_text().replace('"timestamp":"', '"timestamp":7,"was":"'))
    with serving(tmp_path) as client:
        version = client.get("/api/runs").json()["version"]
        listed = client.get("/api/runs", params={"since": version}).json()

    assert costs(listed) == {"run.json": (None, None, 0)}
    [row] = json.loads(invoke("list", tmp_path, "--json").output)["trajectories"]
    assert (row["cost"], row["cost_estimated"]) == (None, None)


def test_an_unfinished_run_is_not_read_for_its_costs(tmp_path: Path) -> None:
    """The list computes the costs of a run only after the run has ended."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    call(recorder, asked("hi", model="gpt-4o"), priced("gpt-4o", 1000))
    recorder.save_trajectory()  # so that its tokens are known
    with serving(tmp_path) as client:
        during = client.get("/api/runs", params={"since": "0"}).json()
        recorder.finalize(True)
        version = client.get("/api/runs").json()["version"]
        after = client.get("/api/runs", params={"since": version}).json()

    assert [run["total_input_tokens"] for run in during["runs"]] == [1000]
    assert (costs(during), during["without_costs"]) == ({"run.json": (None, None, None)}, 0)
    assert costs(after) == {"run.json": (pytest.approx(0.0026), True, 0)}
