"""Durations under a time that a test of the agent freezes, moves on or moves back; times in files follow the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import freezegun
import httpx
import pytest
import time_machine

from tests.chat_calls import CHAT, Wire, asked, said
from tests.cli.invoking import invoke
from tests.processes import python
from trace_recorder import Trajectory, TrajectoryRecorder, load, validate

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


JUMPS = (0, 3, -5, 1, -2)
"""The hours by which the clock is wrong at each call of a run, because it is set again and again."""


def test_calls_under_a_clock_that_jumps_keep_their_order(tmp_path: Path) -> None:
    """Calls are in the order in which they were made, with the durations that passed. Every command reads the run."""
    wire = SlowWire(said("hello"))
    path = tmp_path / "run.json"
    with httpx.Client(transport=wire, trust_env=False) as client:
        recorder = TrajectoryRecorder(path, strict=True)
        recorder.start()
        recorder.wrap(client)
        for number, hours in enumerate(JUMPS):
            with time_machine.travel(datetime.now(UTC) + timedelta(hours=hours)), recorder.step():
                client.post(CHAT, json=asked(f"question {number}"))
        with time_machine.travel(datetime.now(UTC) - timedelta(hours=9)):
            recorder.finalize(success=True)

    run = load(path)
    assert [call.input_messages[-1].content for call in run.llm_interactions] == [f"question {n}" for n in range(5)]
    assert [step.step_number for step in run.agent_steps] == [1, 2, 3, 4, 5]
    seconds = [call.duration_seconds for call in run.llm_interactions] + [run.execution_time]
    assert [one is not None and 0.04 < one < 60 for one in seconds] == [True] * 6
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
    commands = (
        ("show", path),
        ("stats", path),
        ("index", tmp_path),
        ("list", tmp_path),
        ("find", "question", tmp_path),
    )
    exports = (("export", path, "-f", name, "-o", tmp_path / name) for name in ("otlp", "inspect", "atif", "trl"))
    assert [(command[0], invoke(*command).exit_code) for command in (*commands, *exports)] == [
        (name, 0) for name in ("show", "stats", "index", "list", "find", *["export"] * 4)
    ]
    assert "question 4" in invoke("find", "question", tmp_path).output


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
