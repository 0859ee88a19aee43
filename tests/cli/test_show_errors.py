"""`trace-recorder show --errors`: only the steps in which something failed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.invoking import invoke, recorded
from tests.cli.showing import label, shown
from tests.data.shown import TASK, by_hand, captured
from tests.data.written import Writing, asked, said
from trace_recorder import TrajectoryRecorder, http_client

URL = "https://api.openai.com/v1/chat/completions"


def titles(output: str) -> list[str]:
    """Return the first line of each step or call, which has its number and its call."""
    lines = [line for line in output.splitlines() if line.startswith(("step ", "llm_"))]
    return [", ".join(line.split(", ")[:2]) for line in lines]


def test_a_step_with_a_failed_attempt_is_shown(tmp_path: Path) -> None:
    """A step whose call succeeded after a failed attempt is shown as without the option, below the header."""
    path = captured(tmp_path / "run.jsonl")
    path.journal.close()
    whole, failed = shown(tmp_path / "run.jsonl"), shown(tmp_path / "run.jsonl", "--errors")

    assert titles(failed) == ["step 2, llm_2"]
    head, _, steps = failed.partition("\n\n")
    assert whole.startswith(head)
    assert steps in whole


def test_a_call_with_an_error_is_shown(tmp_path: Path) -> None:
    """A call with an error, or without an answer, is shown. A call in flight is not an error."""
    writing = Writing(tmp_path / "run.jsonl")
    writing.request(1, asked(TASK))
    writing.response(1, body=said("Done."))
    writing.request(2, asked(TASK))
    writing.response(2, status=500, body={"error": {"type": "server_error", "message": "broken"}})
    writing.request(3, asked(TASK))
    writing.add("llm_error", interaction_id="llm_3", attempt=0, type="ConnectError", message="refused")
    writing.request(4, asked(TASK))
    writing.journal.close()
    output = shown(tmp_path / "run.jsonl", "--errors")

    assert label(output, "error") == ["HTTP 500, server_error: broken", "ConnectError: refused"]
    assert [title.split(", ")[-1] for title in titles(output)] == ["llm_2", "llm_3"]


def test_a_step_with_a_failed_tool_or_an_error_of_its_own_is_shown(tmp_path: Path) -> None:
    """`show --errors` prints a step with a failed tool or its own error, and the calls of the step."""
    assert titles(shown(by_hand(tmp_path / "run.jsonl"), "--errors")) == ["step 1, calling_tool", "step 2, error"]


def test_a_failed_call_shows_the_step_that_it_belongs_to(tmp_path: Path) -> None:
    """For a failed call, `show --errors` prints the calls and tools of the same step, and no other step."""
    statuses = iter((200, 500, 200, 200))
    with (
        TrajectoryRecorder(tmp_path / "run.json") as recorder,
        http_client(
            recorder=recorder,
            library="httpx",
            transport=httpx.MockTransport(lambda _: httpx.Response(next(statuses), json=said("Done."))),
            trust_env=False,
        ) as client,
    ):
        for calls in (1, 2, 1):
            with recorder.step():
                for number in range(calls):
                    client.post(URL, json=asked(TASK, seed=number))

    output = shown(tmp_path / "run.json", "--errors")
    assert titles(output) == ["step 2, llm_3", "llm_2, in step 2"]


def test_no_failure_is_reported(tmp_path: Path) -> None:
    """If nothing failed, `show --errors` says so below the header."""
    output = shown(recorded(tmp_path / "run.json"), "--errors")

    assert output.endswith("\n\nNo step has an error.\n")
    assert titles(output) == []


@pytest.mark.parametrize("other", [["--step", "1"], ["--turns"], ["--json"]])
def test_conflicting_options_are_refused(other: list[str], tmp_path: Path) -> None:
    """`show --errors` with an option that selects steps in another way is a misuse."""
    done = invoke("show", recorded(tmp_path / "run.json"), "--errors", *other)

    assert done.exit_code == 2
    assert "--errors" in done.output
