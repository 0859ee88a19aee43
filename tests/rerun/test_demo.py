"""The demo's agent in five dialects: recorded, replayed without a server, killed and replayed up to the kill,
forked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from examples.demo.local_provider import LocalProvider
from tests.processes import ROOT
from tests.rerun.demo_runs import FORMS, Done, but_for_seconds, files, work
from tests.searching import IS_SEARCH
from trace_recorder import ReplayMismatchError, TrajectoryRecorder, diff, fork, load, replay

MENDED = "All tests pass. I mended basket.py and discount.py."
CALLS = 9
FINISHED = 5
"""How many calls are answered before the agent is killed. By then it has repaired one of two files."""
MISMATCHES = (openai.APIConnectionError, anthropic.APIConnectionError, ReplayMismatchError, ConnectionError)
"""The exception that each SDK raises if a replay has no answer."""
TIMES_OF_TESTS: Any = ("ids", "times", "prompt", "tool_result")
"""The part that differs between two runs, because the project's tests print their seconds."""


HALF, OTHER_HALF = (FORMS, FORMS) if IS_SEARCH else ([*FORMS][1::2], [*FORMS][::2])


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as running:
        yield running


@pytest.fixture(params=FORMS)
def sdk(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def recorded(sdk: str, provider: LocalProvider, place: Path) -> Done:
    """Return a run of the agent, recorded as run.json."""
    with TrajectoryRecorder(place / "run.json", strict=True) as recorder:
        return work(sdk, provider.url, place / "recorded", recorder.wrap)


def said(path: Path) -> list[tuple[Any, ...]]:
    """Return the model's answers in a run, call by call: text, thoughts and tool calls."""
    answers = [call.response for call in load(path).llm_interactions if call.response]
    return [
        (answer.content, answer.reasoning, [(call.name, call.arguments) for call in answer.tool_calls or ()])
        for answer in answers
    ]


def test_the_demo_is_replayed_without_a_server(sdk: str, tmp_path: Path) -> None:
    """With `tools="live"` its tools write the same files, and otherwise they are not run.

    Both replays are recorded alike.
    """
    with LocalProvider() as provider:
        first = recorded(sdk, provider, tmp_path)

    with replay(tmp_path / "run.json", tools="live", match=but_for_seconds) as run:
        with TrajectoryRecorder(tmp_path / "live.json", strict=True) as recorder:
            live = work(sdk, provider.url, tmp_path / "live", lambda client: recorder.wrap(run.wrap(client)))
    with replay(tmp_path / "run.json") as run, TrajectoryRecorder(tmp_path / "again.json", strict=True) as recorder:
        again = work(sdk, provider.url, tmp_path / "again", lambda client: recorder.wrap(run.wrap(client)))

    assert (first.answer, live) == (MENDED, first)
    assert (again.answer, again.ran) == (MENDED, [])
    assert diff(load(tmp_path / "run.json"), load(tmp_path / "again.json")).equal
    runs = [said(tmp_path / name) for name in ("run.json", "live.json", "again.json")]
    assert (len(runs[0]), runs[1:]) == (CALLS, [runs[0]] * 2)


@pytest.mark.parametrize("sdk", HALF)
def test_a_killed_demo_is_replayed_up_to_the_kill(sdk: str, provider: LocalProvider, tmp_path: Path) -> None:
    """SIGKILL came in the middle of a call. The tools write the same files as before, and then the recording ends."""
    provider.stall_at(FINISHED + 1)
    command = ["-m", "tests.rerun.demo_runs", sdk, provider.url, str(tmp_path / "killed"), str(tmp_path / "run.json")]
    with subprocess.Popen([sys.executable, *command], env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        stalled = provider.wait_until_stalled(120)
        process.kill()
    provider.close()
    ran: list[str] = []

    with pytest.raises(MISMATCHES):
        with replay(tmp_path / "run.json", tools="live", match=but_for_seconds) as run:
            work(sdk, provider.url, tmp_path / "again", run.wrap, ran)

    assert (stalled, process.returncode, load(tmp_path / "run.json").status) == (True, -9, "interrupted")
    assert "the rest of the answer is not on file: the recording ends here" in str(run.mismatch)
    assert (ran.count("write_file"), files(tmp_path / "again")) == (1, files(tmp_path / "killed"))


@pytest.mark.parametrize("sdk", OTHER_HALF)
def test_the_demo_is_forked_at_step_4_with_a_new_model(sdk: str, provider: LocalProvider, tmp_path: Path) -> None:
    """Three steps and their tools are replayed. From the fourth on the new model is called, and the end is the same."""
    first = recorded(sdk, provider, tmp_path)
    asked = provider.hits

    with fork(tmp_path / "run.json", at_step=4, model="another-model") as branch:
        second = work(sdk, provider.url, tmp_path / "forked", branch.wrap)

    child = branch.recorder.trajectory_path
    models = [call.model for call in load(child).llm_interactions]
    assert (provider.hits - asked, models) == (CALLS - 3, ["local-model"] * 3 + ["another-model"] * (CALLS - 3))
    assert load(child).metadata["forked_from"]["step_number"] == 4
    assert (second.answer, second.files, second.ran) == (MENDED, first.files, first.ran[-len(second.ran) :])
    assert (len(second.ran) < len(first.ran), said(child)) == (True, said(tmp_path / "run.json"))
    compared = diff(load(tmp_path / "run.json"), load(child), ignore=(*TIMES_OF_TESTS, "model"))
    assert (len(compared.steps), compared.equal, all(step.a and step.b for step in compared.steps)) == (
        CALLS,
        True,
        True,
    )
