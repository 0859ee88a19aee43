"""Durations under a time that a test of the agent freezes, moves on or moves back; times in files follow the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import freezegun
import httpx
import pytest
import time_machine

from tests.chat_calls import CHAT, Wire, asked, said
from tests.processes import python
from trace_recorder import Trajectory, TrajectoryRecorder, load

THEN = datetime(2020, 1, 1, tzinfo=UTC)
CLOCKS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "freezegun": lambda: freezegun.freeze_time(THEN),
    "freezegun that ticks": lambda: freezegun.freeze_time(THEN, tick=True),
    "freezegun that jumps": lambda: freezegun.freeze_time(THEN, auto_tick_seconds=3600),
    "time-machine": lambda: time_machine.travel(THEN, tick=False),
}


class SlowWire(Wire):
    """A provider that takes 0.05 s."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer after a pause."""
        time.sleep(0.05)
        return super().handle_request(request)


def record(path: Path) -> Trajectory:
    """Record a step with a call and a tool, each of 0.05 s."""

    def rest() -> None:
        time.sleep(0.05)

    wire = SlowWire(said("hello"))
    with httpx.Client(transport=wire, trust_env=False) as client, TrajectoryRecorder(path, strict=True) as recorder:
        recorder.wrap(client)
        with recorder.step():
            client.post(CHAT, json=asked("hello"))
            recorder.tool(rest)()
    return load(path)


def durations(run: Trajectory) -> list[float | None]:
    """Return the seconds of the call, the tool, the step and the run."""
    [call], [step] = run.llm_interactions, run.agent_steps
    [result] = step.tool_results
    return [call.duration_seconds, result.duration_seconds, step.duration_seconds, run.execution_time]


@pytest.mark.parametrize("clock", CLOCKS)
def test_durations_do_not_follow_a_time_that_was_set(clock: str, tmp_path: Path) -> None:
    """Durations are those that passed. Times in the file are those of the test."""
    with CLOCKS[clock]():
        run = record(tmp_path / "run.json")

    assert [seconds is not None and 0.04 < seconds < 60 for seconds in durations(run)] == [True] * 4
    assert run.started_at is not None
    assert run.started_at.year == 2020


def test_a_time_that_moves_back_in_a_run_changes_no_duration(tmp_path: Path) -> None:
    """A run that begins today and ends in 1999 has the duration that passed."""
    recorder = TrajectoryRecorder(tmp_path / "run.json", strict=True)
    recorder.start()
    with freezegun.freeze_time("1999-01-01"):
        recorder.annotate("a", 1)
        recorder.finalize()

    run = load(tmp_path / "run.json")
    assert run.execution_time is not None
    assert (0 < run.execution_time < 60, str(run.end_time)[:4]) == (True, "1999")


def test_a_package_that_is_imported_while_the_time_is_frozen_measures_too() -> None:
    """The clock does not come from the functions that were replaced."""
    code = """
    import time, freezegun
    with freezegun.freeze_time("2020-01-01"):
        from trace_recorder.clocks import monotonic_seconds
        began = monotonic_seconds()
        time.sleep(0.05)
        print(0.04 < monotonic_seconds() - began < 60)
    """
    done = python(code)
    assert done.stdout == "True\n", done.stderr
