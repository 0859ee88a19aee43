"""Pages of the list: the same filters as in `find`, sorting, and stable rows while runs are added and removed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.catalog.many_runs import make_runs, record_run, settle
from tests.cli.invoking import invoke
from tests.viewer.serving import serving
from trace_recorder import TrajectoryRecorder, load_all, open_index
from trace_recorder.catalog.run_tree import run_tree
from trace_recorder.catalog.selection import SORTS

Row = dict[str, Any]
RUNS = 24


@pytest.fixture(scope="module", params=[False, True], ids=["no index", "index"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with runs of many kinds, which no test changes."""
    place = make_runs(tmp_path_factory.mktemp("pages") / "runs", RUNS)
    if request.param:
        open_index(place).update()
    return place


@pytest.fixture(scope="module")
def client(directory: Path) -> Iterator[httpx.Client]:
    """Return a client of one server for all tests of a directory. The server has read it when the first test ends."""
    with serving(directory) as client:
        yield client


def page(client: httpx.Client, **asked: str | int) -> dict[str, Any]:
    """Request rows of the list and return the answer; `first` is the query parameter `from`."""
    parameters = {"from" if name == "first" else name: value for name, value in asked.items()}
    answer = client.get("/api/runs", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def complete(client: httpx.Client, **asked: str | int) -> dict[str, Any]:
    """Return the list's answer after all files were read, including the calls for the costs."""
    while (answer := page(client, since="0", **asked))["next_seconds"] < 1:
        pass
    return answer


def ids(answer: dict[str, Any]) -> list[str]:
    return [row["id"] for row in answer["runs"]]


def newest_first(rows: list[Row]) -> list[Row]:
    """Return rows in the order of time, without the tree of runs that belong together."""
    return sorted(rows, key=lambda row: (VALUES["time"](row), row["id"]), reverse=True)


NOON = "2026-01-01T12:00"


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        *(({"status": status}, f"status:{status}") for status in ("completed", "failed", "success")),
        ({"status": "no success"}, "status:no-success"),
        ({"errors": "yes"}, "has:error"),
        *(({"cost": cost}, f"cost>={cost}") for cost in ("0", "0.0002", "9")),
        *(({"began_since": time}, f"since:{time}") for time in (NOON, "1h", "0d")),
        *(({"began_until": time}, f"until:{time}") for time in (NOON, "0d")),
        *(({"query": query}, query) for query in ("alpha", 'is:failed -tool:"a>b"', "model:gpt tokens>50", "nothing")),
        ({"query": "beta", "status": "completed", "errors": "yes"}, "beta status:completed has:error"),
    ],
    ids=str,
)
def test_a_filter_gives_the_same_as_find(
    client: httpx.Client, directory: Path, asked: dict[str, str], query: str
) -> None:
    """A filter of the list matches the same runs as the same term of `find`.

    With a search, both must match. The run without a document is left out, because the list does not know its figures.
    """
    expected = {
        run.path.relative_to(directory).as_posix() for run in load_all(directory, where=query, strict=False) if run.path
    }
    answer = complete(client, **asked)

    with_document = {name for name in ids(answer) if name != "unfinished.jsonl"}
    assert with_document == expected - {"unfinished.jsonl"}
    assert (answer["count"], answer["total"]) == (len(ids(answer)), RUNS + 1)


@pytest.mark.parametrize(
    ("asked", "matches"),
    [
        ({"text": "TASK alp"}, lambda row: "alpha" in row["task"]),
        ({"text": "below/ run1"}, lambda row: "below/" in row["id"] and "run1" in row["id"]),
        ({"text": "anthropic"}, lambda row: row["provider"] == "anthropic"),
        ({"text": "café"}, lambda row: "café" in row["task"]),
        ({"model": "gpt-4o"}, lambda row: row["model"] == "gpt-4o"),
        ({"model": "gpt"}, lambda _: False),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_filters_beyond_find_match(client: httpx.Client, asked: dict[str, str], matches: Callable[[Row], bool]) -> None:
    """The list can also filter by words of the task, file, model or provider, and by the model of the whole run."""
    everything = page(client)["runs"]
    assert {*ids(page(client, **asked))} == {row["id"] for row in everything if matches(row)}


def failures(row: Row) -> int:
    return (row["failed_llm_calls"] or 0) + (row["failed_tool_calls"] or 0)


def tokens(row: Row) -> int | None:
    known = [count for count in (row["total_input_tokens"], row["output_tokens"]) if count is not None]
    return sum(known) if known else None


VALUES: dict[str, Callable[[Row], Any]] = {
    "status": lambda row: row["status"],
    "task": lambda row: row["task"] and row["task"].casefold(),
    "model": lambda row: row["model"] and row["model"].casefold(),
    "time": lambda row: datetime.fromisoformat(row["start_time"]).astimezone(UTC),
    "duration": lambda row: row["execution_time_seconds"],
    "steps": lambda row: row["steps"],
    "errors": failures,
    "tokens": tokens,
    "cost": lambda row: row["cost"],
    "rewards": lambda row: sum(row["rewards"].values()) if row["rewards"] else None,
}


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("column", VALUES)
def test_each_column_sorts(client: httpx.Client, column: str, descending: bool) -> None:
    """Rows with unknown values come last in both directions, and among equal values the newest run comes first.

    In the order of time, the runs of a session are below the first of them.
    """
    value = VALUES[column]
    rows = newest_first(complete(client)["runs"])
    answer = page(client, sort=f"{'-' * descending}{column}")

    known = sorted((row for row in rows if value(row) is not None), key=value, reverse=descending)
    expected = known + [row for row in rows if value(row) is None]
    if column == "time":
        branches = run_tree([None] * len(expected), [row["session"] for row in expected])
        expected = [expected[branch.row] for branch in branches]
    assert ids(answer) == [row["id"] for row in expected]


def test_the_orders_of_list_have_the_same_names(client: httpx.Client, directory: Path) -> None:
    """An order that the list and the command `list` both have sorts the same figures in the same way."""
    shared = [column for column in VALUES if column in SORTS]
    rows = {row["id"]: row for row in complete(client, query="-status:interrupted")["runs"]}
    for column in shared:
        listed = invoke("list", directory, "--json", "--where", "-status:interrupted", "--sort", column).stdout
        by_command = [VALUES[column](rows[row["file"]]) for row in json.loads(listed)["trajectories"]]
        by_page = page(client, sort=column, query="-status:interrupted")["runs"]
        if column == "time":  # the page has a tree
            by_page = newest_first(by_page)[::-1]
        assert [VALUES[column](row) for row in by_page] == by_command

    assert shared == ["time", "duration", "tokens", "cost"]


def test_pages_give_the_whole_list(client: httpx.Client) -> None:
    """The pages together are the whole list, and a page beyond the end is empty."""
    whole = page(client, sort="task")
    pages = [page(client, sort="task", first=first, to=first + 6) for first in range(0, RUNS + 7, 7)]

    assert [row for page in pages for row in page["runs"]] == whole["runs"]
    assert [page["from"] for page in pages] == [0, 7, 14, 21, 28]
    assert {(page["count"], page["version"]) for page in pages} == {(RUNS + 1, whole["version"])}


def test_runs_are_counted(client: httpx.Client, directory: Path) -> None:
    """The list counts runs by status, judgement and model. With a search, it counts the matching runs too."""
    rows = page(client)["runs"]
    listed = page(client, query="tool:bash", status="completed")

    statuses = [row["status"] for row in rows]
    statuses += [{True: "success", False: "no success"}[row["success"]] for row in rows if row["success"] is not None]
    assert dict(listed["statuses"]) == {status: statuses.count(status) for status in statuses}
    models = [row["model"] for row in rows if row["model"]]
    assert dict(listed["models"]) == {model: models.count(model) for model in models}
    assert dict(listed["counts"]["tool"])["bash"] == len([*load_all(directory, where="tool:bash", strict=False)])
    assert [file["id"] for file in listed["unreadable"]] == ["damaged.json"]


@pytest.mark.parametrize(
    "asked", [{"sort": "bytes"}, {"status": "faild"}, {"cost": "much"}, {"query": "nofield:x"}, {"from": "-1"}], ids=str
)
def test_a_wrong_parameter_is_refused_in_a_sentence(client: httpx.Client, asked: dict[str, str]) -> None:
    """A wrong query parameter is refused with a sentence that the page can show."""
    answer = client.get("/api/runs", params=asked)

    assert (answer.status_code, [*answer.json()]) == (400, ["error"])


# ── while runs come and go ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def changing(tmp_path: Path) -> Path:
    """A directory with runs that a test may change."""
    for number in range(6):
        record_run(tmp_path / f"run{number}.json", 3 * number + 2)  # these seeds have no session
    settle(tmp_path)
    return tmp_path


def test_rows_of_a_version_stay_while_runs_come_and_go(changing: Path) -> None:
    """A request with a version gets rows of that version: no row is repeated or missing, and a deleted run is null."""
    with serving(changing) as client:
        before = complete(client, to=2)
        record_run(changing / "new.json", 7)
        for suffix in (".json", ".jsonl"):
            (changing / f"run1{suffix}").unlink()
        after = page(client, since=before["version"], to=2)
        rest = page(client, version=before["version"], first=3, to=9)
        unknown = page(client, version="other.1", first=3, to=9)

    assert ids(before) == ["run5.json", "run4.json", "run3.json"]
    assert [row and row["id"] for row in rest["runs"]] == ["run2.json", None, "run0.json"]
    assert (rest["version"], rest["count"]) == (before["version"], 6)
    assert ids(after) == ["new.json", "run5.json", "run4.json"]
    assert (unknown["version"], ids(unknown)) == (after["version"], ["run3.json", "run2.json", "run0.json"])


def test_rows_of_a_version_read_no_file(changing: Path) -> None:
    """A request with a version reads no file, so that scrolling does not wait for the directory."""
    with serving(changing) as client:
        before = complete(client)
        record_run(changing / "new.json", 7)
        rows = page(client, version=before["version"])
        after = page(client, since=before["version"])

    assert rows["runs"] == before["runs"]
    assert ids(after) == ["new.json", *ids(before)]


def test_an_unchanged_list_is_a_few_bytes(changing: Path) -> None:
    """The answer for an unchanged list is short, with any filter and any number of rows."""
    with serving(changing) as client:
        version = complete(client, query="alpha", sort="cost")["version"]
        answer = client.get("/api/runs", params={"since": version, "query": "alpha", "sort": "cost"})

    assert len(answer.content) < 200
    assert (answer.json()["changed"], answer.json()["runs"]) == (False, [])


def test_a_run_that_goes_on_changes_in_the_list_and_in_a_search(changing: Path) -> None:
    """A running run is counted as running, is found by its new texts, and is then listed as ended."""
    live = TrajectoryRecorder(changing / "live.json", task="watched")
    live.start()
    with serving(changing) as client:
        answers = [complete(client, query="sesame")]
        live.record_llm_interaction([{"role": "user", "content": "open sesame"}], {"content": "yes"}, "openai", "m")
        live.save_trajectory()
        answers.append(page(client, query="sesame", since=answers[0]["version"]))
        live.finalize(True)
        answers.append(page(client, query="sesame", since=answers[1]["version"]))

    assert [[(row["id"], row["status"]) for row in answer["runs"]] for answer in answers] == [
        [],
        [("live.json", "running")],
        [("live.json", "completed")],
    ]
    assert [dict(answer["counts"]["status"]) for answer in answers] == [{}, {"running": 1}, {"completed": 1}]
    assert ["running", 1] in answers[0]["statuses"]


def test_a_damaged_run_leaves_the_list_and_is_named(changing: Path) -> None:
    """A damaged run is named as unreadable. After its repair, it is listed and found again, with its costs."""
    document = changing / "run3.json"
    text = document.read_text()
    (changing / "run3.jsonl").unlink()
    with serving(changing) as client:
        before = complete(client, query="task:task")
        document.write_text("[")
        damaged = page(client, query="task:task", since=before["version"])
        document.write_text(text)
        mended = complete(client, query="task:task")

    assert [file["id"] for file in damaged["unreadable"]] == ["run3.json"]
    assert ids(damaged) == [name for name in ids(before) if name != "run3.json"]
    assert (ids(mended), mended["unreadable"]) == (ids(before), [])


def test_a_run_replaced_by_a_link_is_neither_listed_nor_searched(changing: Path) -> None:
    """The viewer does not read the target of a link that replaced a run's file since the directory was last listed."""
    secret = record_run(changing.parent / "secret.json", 9)
    with serving(changing) as client:
        before = complete(client)
        for suffix in (".json", ".jsonl"):
            (changing / f"run2{suffix}").unlink()
            (changing / f"run2{suffix}").symlink_to(secret.with_suffix(suffix))
        rows = page(client, version=before["version"])
        after = page(client, since=before["version"], query="task:task")

    assert next(row for row in rows["runs"] if row["id"] == "run2.json") in before["runs"]
    assert "run2.json" not in ids(after)
    assert after["counts"]["status"]
