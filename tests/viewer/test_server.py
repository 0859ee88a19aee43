"""The viewer's server over HTTP: its answers about the runs of a directory."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import asked, call
from tests.viewer.recorded import SYSTEM, answer, growing, record
from tests.viewer.serving import serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.viewer.one_file import one_file

RUN = "/api/runs/run.json"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    record(tmp_path / "run.json", growing(3))
    return tmp_path


def test_a_directory_is_listed_again_if_it_changed(directory: Path) -> None:
    """A request with the list's version gets a short answer until a run is added, changed or deleted."""
    with serving(directory) as client:
        first = client.get("/api/runs").json()
        record(directory / "other.json", growing(1))
        second = client.get("/api/runs", params={"since": first["version"]}).json()
        (directory / "run.json").unlink()
        (directory / "run.jsonl").unlink()
        third = client.get("/api/runs", params={"since": second["version"]}).json()
        fourth = client.get("/api/runs", params={"since": third["version"]}).json()

    assert [(run["id"], run["status"], run["llm_calls"]) for run in first["runs"]] == [("run.json", "completed", 3)]
    assert [row["id"] for row in second["runs"]] == ["other.json", "run.json"]
    assert [row["id"] for row in third["runs"]] == ["other.json"]
    assert (fourth["changed"], fourth["runs"], fourth["version"]) == (False, [], third["version"])


def test_a_run_can_be_saved_as_one_file(directory: Path) -> None:
    """The answer equals the output of `view -o`, and a header makes the browser save it. The token is required."""
    with serving(directory) as client:
        got = client.get(f"{RUN}/file")
        refused = client.get(f"{RUN}/file", headers={"authorization": ""})

    assert got.text == one_file(load(directory / "run.json"), "run.json")
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''run.html"
    assert refused.status_code == 401


def test_every_url_of_a_run_answers(directory: Path) -> None:
    """The part of a range beyond the end is left out of the answer, and a single message comes whole."""
    with serving(directory) as client:
        got = {
            name: client.get(f"{RUN}{name}").json()
            for name in [
                *("", "/messages?from=1&to=99", "/messages?numbers=0,3", "/messages/0", "/interactions/2"),
                *("/interactions?from=2", "/interactions/2/raw", "/items?to=0", "/steps", "/steps/1"),
            ]
        }

    assert got[""]["counts"]["messages"] == 6
    assert [message["number"] for message in got["/messages?from=1&to=99"]["messages"]] == [1, 2, 3, 4, 5]
    assert [message["role"] for message in got["/messages?numbers=0,3"]["messages"]] == ["system", "tool"]
    assert got["/messages/0"] == {
        "number": 0,
        "role": "system",
        "characters": 9,
        "parts": [{"type": "text", "text": "Be brief."}],
    }
    assert [call["number"] for call in got["/interactions?from=2"]["interactions"]] == [2, 3]
    assert got["/interactions/2"]["prompt"] == [[0, 3]]
    assert got["/interactions/2/raw"]["request"]["items"]["messages"] == [[0, 3]]
    assert got["/items?to=0"] == {"items": [{"number": 0, "value": SYSTEM}]}
    assert len(got["/steps"]["steps"]) == 3
    assert got["/steps/1"]["tool_calls"][0]["result"]["parts"] == [{"type": "text", "text": "output 1"}]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        *((f"{RUN}/messages/99", 404), (f"{RUN}/messages/x", 400), (f"{RUN}/messages/-1", 400)),
        *((f"{RUN}/interactions/0", 404), (f"{RUN}/steps?from=%D9%A1", 400), (f"{RUN}/messages?numbers=1,99", 404)),
        *((f"{RUN}/messages/{'9' * 5000}", 400), (f"{RUN}/nothing", 404), ("/api/runs/nothing.json", 404)),
        ("/favicon.ico", 404),
    ],
)
def test_unknown_numbers_and_names_are_refused_in_a_sentence(directory: Path, address: str, status: int) -> None:
    """A wrong number or name gets an error status, and JSON with one sentence."""
    with serving(directory) as client:
        answered = client.get(address)

    assert answered.status_code == status
    assert answered.json()["error"].endswith(".")


def test_a_run_is_followed_during_its_recording(tmp_path: Path) -> None:
    """A waiting client gets each new entry once, when it is recorded."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    prompts = growing(2)
    call(recorder, asked(*prompts[0]), answer(1))
    with serving(tmp_path) as client:
        outline = client.get(RUN).json()
        later = threading.Timer(0.5, lambda: call(recorder, asked(*prompts[1]), answer(2)))
        later.start()
        news = client.get(f"{RUN}/since", params={"version": outline["version"], "wait": "20"}).json()
        later.join()
        recorder.finalize(True)
        end = client.get(f"{RUN}/since", params={"version": news["version"], "wait": "0"}).json()
        idle = client.get(f"{RUN}/since", params={"version": end["version"]}).json()

    assert (outline["run"]["status"], outline["writable"]) == ("running", False)
    assert news["counts"]["interactions"] == 2
    assert 2 in [call["number"] for call in news["interactions"]]
    assert (end["run"]["status"], end["writable"], end["reset"]) == ("completed", True, False)
    assert (idle["version"], idle["interactions"], idle["steps"]) == (end["version"], [], [])


def test_waiting_ends_after_its_time(directory: Path) -> None:
    """If nothing changes, a waiting request is answered after its time limit, with the same version."""
    with serving(directory) as client:
        version = client.get(RUN).json()["version"]
        began = time.monotonic()
        same = client.get(f"{RUN}/since", params={"version": version, "wait": "1"}).json()

    assert same["version"] == version
    assert time.monotonic() - began >= 0.9


def test_an_unknown_version_gets_everything(directory: Path) -> None:
    """A request with an unknown version, such as from before a restart of the server, gets the whole outline."""
    with serving(directory) as client:
        answered = client.get(f"{RUN}/since", params={"version": "dead.7"}).json()

    assert answered["reset"] is True
    assert len(answered["interactions"]) == 3


def test_a_reward_and_a_note_are_appended_to_the_journal(directory: Path) -> None:
    """A posted reward and a posted note are recorded, with secrets masked, and are in the answer."""
    with serving(directory) as client:
        reward = client.post(f"{RUN}/rewards", json={"name": "good", "value": 0.5, "explanation": "sk-" + "a1B2" * 12})
        note = client.post(
            f"{RUN}/annotations", json={"key": "note", "value": {"text": "<b>", "key": "sk-" + "a1B2" * 12}}
        )
        listed = client.get("/api/runs").json()["runs"]

    assert (reward.status_code, note.status_code) == (201, 201)
    assert listed[0]["rewards"] == {"good": 0.5}
    run = load(directory / "run.json")
    assert [(reward.name, reward.value) for reward in run.rewards] == [("good", 0.5)]
    assert "REDACTED" in (run.rewards[0].explanation or "")
    assert run.annotations["note"]["text"] == "<b>"
    assert "a1B2a1B2" not in (directory / "run.jsonl").read_text()
    assert note.json()["run"]["annotations"] == run.annotations


@pytest.mark.parametrize(
    ("what", "body"),
    [
        *(("rewards", {"name": "x"}), ("rewards", {"name": "x", "value": "1"}), ("rewards", {"name": "", "value": 1})),
        *(("rewards", {"name": "x", "value": True}), ("rewards", {"name": "x", "value": 1, "step_number": 1.5})),
        *(("rewards", []), ("annotations", {"key": "x"}), ("annotations", {"key": 1, "value": 2})),
        ("annotations", {"key": "x", "value": 1, "more": 2}),
        *(("rewards", {"name": "x", "value": 10**400}), ("rewards", {"name": "x", "value": 1, "weight": -(10**400)})),
    ],
)
def test_an_invalid_reward_is_refused(directory: Path, what: str, body: object) -> None:
    """A posted reward of a wrong form is refused, and nothing is written."""
    before = (directory / "run.jsonl").read_bytes()
    with serving(directory) as client:
        answered = client.post(f"{RUN}/{what}", json=body)

    assert answered.status_code == 400
    assert (directory / "run.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"name":"x","value":NaN}', b'{"name":"x","value":1e999}', b"[" * 100_000]
)
def test_a_body_that_is_not_json_is_refused(directory: Path, body: bytes) -> None:
    """A body that is not JSON, or has a number that is not finite, is a bad request."""
    with serving(directory) as client:
        answered = client.post(f"{RUN}/rewards", content=body, headers={"content-type": "application/json"})

    assert answered.status_code == 400


def test_a_large_body_is_refused(directory: Path) -> None:
    """A body of more than a megabyte is refused without being read."""
    with serving(directory) as client:
        assert client.post(f"{RUN}/annotations", json={"key": "x", "value": "y" * 2_000_000}).status_code == 400


def test_nothing_is_added_to_a_running_run(tmp_path: Path) -> None:
    """A reward for a run that is still recorded gets the status "conflict" and a message that says what to do."""
    recorder = TrajectoryRecorder(tmp_path / "run.json")
    recorder.start()
    with serving(tmp_path) as client:
        answered = client.post(f"{RUN}/rewards", json={"name": "good", "value": 1})
    recorder.finalize(True)

    assert answered.status_code == 409
    assert "still being written" in answered.json()["error"]


def test_nothing_is_added_to_a_document_without_a_journal(directory: Path) -> None:
    """A reward for a document without a journal gets the status "conflict"."""
    (directory / "run.jsonl").unlink()
    with serving(directory) as client:
        assert client.get(RUN).json()["writable"] is False
        assert client.post(f"{RUN}/rewards", json={"name": "good", "value": 1}).status_code == 409


def test_a_read_only_server_adds_nothing(directory: Path) -> None:
    """With `read_only`, a reward gets the status "conflict"."""
    with serving(directory, read_only=True) as client:
        assert client.get(RUN).json()["writable"] is False
        assert client.post(f"{RUN}/rewards", json={"name": "good", "value": 1}).status_code == 409


def test_a_single_run_is_served(directory: Path) -> None:
    """A server for one file lists its run, whether the document or the journal was named, and serves it."""
    record(directory / "other.json", growing(1))
    with serving(directory / "run.jsonl") as client:
        listed = client.get("/api/runs").json()["runs"]
        page = client.get("/").text
        other = client.get("/api/runs/other.json")

    assert [one["id"] for one in listed] == ["run.json"]
    assert '"run": "run.json"' in page
    assert other.status_code == 404


def test_two_runs_are_aligned_by_number(directory: Path) -> None:
    """Two runs are compared as pairs of step numbers, and two steps as changes of single values."""
    other = growing(3)
    other[1][3] = {**other[1][3], "content": "another output"}
    record(directory / "other.json", other)
    with serving(directory) as client:
        compared = client.get("/api/compare", params={"a": "run.json", "b": "other.json"}).json()
        pairs = compared["pairs"]
        pair_number = compared["parts_at"]
        changes = client.get(f"/api/compare/pairs/{pair_number}", params={"a": "run.json", "b": "other.json"}).json()
        same = client.get("/api/compare", params={"a": "run.json", "b": "run.json"}).json()
        refused = [
            client.get("/api/compare", params={"a": "run.json"}).status_code,
            client.get("/api/compare/pairs/99", params={"a": "run.json", "b": "run.json"}).status_code,
        ]

    assert [one["a"] for one in pairs] == [{"step": number, "interaction": number} for number in (1, 2, 3)]
    assert (same["equal"], same["parts_at"]) == (True, None)
    assert pairs[pair_number]["differs"] == [difference["kind"] for difference in changes["differences"]]
    assert "another output" in str(changes)
    assert refused == [404, 404]


def test_two_requests_at_once_get_the_same_run(directory: Path) -> None:
    """Two requests that open a run at the same time get the same answer."""
    answers: list[httpx.Response] = []
    with serving(directory) as client:
        threads = [threading.Thread(target=lambda: answers.append(client.get(RUN))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
