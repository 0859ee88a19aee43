"""`trace-recorder show --step N --raw`: the recorded requests and responses of a step's calls."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.cli.invoking import invoke, recorded
from tests.data.shown import ASSISTANT, HALF, RESULT, SYSTEM, TASK, by_hand, captured
from tests.data.written import asked, said
from trace_recorder import TrajectoryRecorder, http_client
from trace_recorder.values.messages import Payload

URL = "https://api.openai.com/v1/chat/completions"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four calls."""
    captured(tmp_path / "run.jsonl").journal.close()
    return tmp_path / "run.jsonl"


def raw(path: Path, step: int, *options: str) -> Payload:
    """Return what `show --raw` prints."""
    done = invoke("show", path, "--step", step, "--raw", *options)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_whole_request_and_response_are_printed(run: Path) -> None:
    """`--raw` prints the last attempt with its whole history. --json does not change the output."""
    sent = {"interaction_id": "llm_2", "url": URL, "request": asked(SYSTEM, TASK, ASSISTANT, RESULT)}

    assert raw(run, 2) == raw(run, 2, "--json") == [{**sent, "status": 200, "response": said("It prints nothing.")}]


def test_a_stream_is_printed_as_its_text(run: Path) -> None:
    """For a stream, `--raw` prints the received text and not the assembled response."""
    [call] = raw(run, 3)

    assert (call["stream"], "response" in call) == (HALF, False)


def test_an_open_call_has_no_response(run: Path) -> None:
    """A call that has no answer yet is printed without a response and a status."""
    sent = {"interaction_id": "llm_4", "url": URL, "request": asked(TASK)}

    assert raw(run, 4) == [{**sent, "status": None, "response": None}]


def test_all_calls_of_a_step_are_printed(tmp_path: Path) -> None:
    """`--raw` prints all calls of the step in the order of time."""
    with (
        TrajectoryRecorder(tmp_path / "run.json") as recorder,
        http_client(
            recorder=recorder,
            library="httpx",
            transport=httpx.MockTransport(lambda _: httpx.Response(200, json=said("Done."))),
            trust_env=False,
        ) as client,
    ):
        for calls in (1, 2):
            with recorder.step():
                for number in range(calls):
                    client.post(URL, json=asked(TASK, seed=number))

    found = [(call["interaction_id"], call["request"]["seed"]) for call in raw(tmp_path / "run.json", 2)]
    assert found == [("llm_2", 0), ("llm_3", 1)]


def test_without_a_journal_raw_fails(tmp_path: Path) -> None:
    """The message says where the journal should be."""
    path = recorded(tmp_path / "run.json")
    path.with_suffix(".jsonl").unlink()
    done = invoke("show", path, "--step", 1, "--raw")

    assert done.exit_code == 1
    assert (
        done.output == "trace-recorder: llm_1: only a run's journal has the requests and responses as they were sent\n"
    )


def test_a_call_recorded_by_hand_has_no_raw_request(tmp_path: Path) -> None:
    """`--raw` makes up no request for a call that was recorded by hand, because it was not sent over HTTP."""
    done = invoke("show", recorded(tmp_path / "run.json"), "--step", 1, "--raw")

    assert done.exit_code == 1
    assert done.output == "trace-recorder: llm_1 was recorded by hand: its request and response as sent are unknown\n"


def test_a_step_without_calls_or_an_unknown_step_is_an_error(tmp_path: Path) -> None:
    """The error is a sentence."""
    path = by_hand(tmp_path / "run.jsonl")
    without, none = invoke("show", path, "--step", 1, "--raw"), invoke("show", path, "--step", 9, "--raw")

    assert (without.exit_code, none.exit_code) == (1, 1)
    assert without.output == "trace-recorder: the step has no LLM call, so nothing was sent\n"
    assert none.output == f"trace-recorder: {path} has no step 9; it has 1-2\n"


@pytest.mark.parametrize(
    ("options", "message"), [([], "it needs --step"), (["--step", "1", "--turns"], "turns have no step numbers")]
)
def test_conflicting_options_are_refused(options: list[str], message: str, run: Path) -> None:
    """`--raw` with an option that it conflicts with is a misuse."""
    done = invoke("show", run, "--raw", *options)

    assert done.exit_code == 2
    assert message in done.output
