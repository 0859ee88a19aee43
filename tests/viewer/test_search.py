"""The viewer's search over all runs, with counts, and the table of several runs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.catalog.many_runs import make_runs
from tests.viewer.serving import serving
from trace_recorder import TrajectoryRecorder, load, load_all, open_index


@pytest.fixture(params=[False, True], ids=["no index", "index"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with runs of many kinds."""
    make_runs(tmp_path / "runs", 8)
    if request.param:
        open_index(tmp_path / "runs").update()
    return tmp_path / "runs"


def found(client: httpx.Client, query: str) -> dict[str, object]:
    """Return the answer to a search."""
    answer: dict[str, object] = client.get("/api/find", params={"query": query}).json()
    return answer


@pytest.mark.parametrize(
    "query", ["", "alpha", "is:success tag:audit", "-older:7d", "-status:completed", 'tool:"read file">1']
)
def test_a_search_finds_the_runs_of_the_query_language(directory: Path, query: str) -> None:
    """A search finds the runs that match the query, and gives the ids that the list has."""
    expected = [run.path for run in load_all(directory, where=query, strict=False) if run.path]
    with serving(directory) as client:
        listed = {run["id"] for run in client.get("/api/runs").json()["runs"]}
        answer = found(client, query)

    assert answer["runs"] == [path.relative_to(directory).as_posix() for path in expected]
    assert {*expected} <= {directory / name for name in listed}


def test_counts_cover_the_matching_runs(directory: Path) -> None:
    """The matching runs are counted by status, judgement, model, tool and reward, the most frequent first."""
    runs = [*load_all(directory, where="tool:bash", strict=False)]
    with serving(directory) as client:
        counts = found(client, "tool:bash")["counts"]

    assert isinstance(counts, dict)
    statuses = [run.status for run in runs]
    assert dict(counts["status"]) == {one: statuses.count(one) for one in statuses}
    assert counts["tool"][0] == ["bash", len(runs)]
    assert sum(number for _, number in counts["model"]) == len(runs)
    assert sum(number for _, number in counts["reward"]) == sum(bool(run.rewards) for run in runs)


def test_a_wrong_query_is_refused_in_a_sentence(directory: Path) -> None:
    """A wrong query is refused with a sentence that the page can show."""
    with serving(directory) as client:
        answer = client.get("/api/find", params={"query": "nofield:x"})

    assert (answer.status_code, "nofield" in answer.json()["error"]) == (400, True)


def test_a_link_out_of_the_directory_is_not_searched(directory: Path) -> None:
    """A search neither finds nor counts the target of a link that leads out of the directory."""
    secret = directory.parent / "secret.json"
    with TrajectoryRecorder(secret, task="secretly") as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "hidden"}], {"content": "x"}, "openai", "m")
    (directory / "link.json").symlink_to(secret)
    with serving(directory) as client:
        answer = found(client, "task:secretly")

    assert (answer["runs"], [*answer["counts"].values()]) == ([], [[]] * 5)  # type: ignore[attr-defined]


def record(path: Path, *answers: str) -> Path:
    """Record a run with these answers."""
    with TrajectoryRecorder(path, task="ask") as recorder:
        messages: list[object] = [{"role": "user", "content": "q"}]
        for answer in answers:
            recorder.record_llm_interaction(messages, {"content": answer}, "openai", "m")
            messages = [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]
    return path


def test_a_table_has_a_row_for_corresponding_steps(tmp_path: Path) -> None:
    """Matching steps of several runs share a row of the table. Steps that the first run lacks have their own rows."""
    record(tmp_path / "a.json", "one", "two")
    record(tmp_path / "b.json", "one", "two", "three")
    record(tmp_path / "c.json", "one")
    with serving(tmp_path) as client:
        table = client.get("/api/table", params={"run": ["a.json", "b.json", "c.json"]}).json()
        alone = client.get("/api/table", params={"run": ["a.json"]})
        unknown = client.get("/api/table", params={"run": ["a.json", "no.json"]})

    rows = table["rows"]
    heads = [(head["models"], head["task"], head["status"], head["cost"]) for head in table["runs"]]
    assert heads == [(["m"], "ask", "completed", None)] * 3
    assert all(head["execution_time_seconds"] > 0 for head in table["runs"])
    assert [[cell and cell["text"] for cell in row] for row in rows] == [
        ["one", "one", "one"],
        ["two", "two", None],
        [None, "three", None],
    ]
    assert [cell["interaction"] for cell in rows[1][:2]] == [2, 2]
    assert [cell["differs"] for cell in rows[0]] == [[], [], []]
    assert (alone.status_code, unknown.status_code) == (400, 404)
    assert len(load(tmp_path / "a.json").llm_interactions) == 2
