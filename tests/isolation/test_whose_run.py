"""Whose run a call belongs to, if its context names no recorder: each program runs in a process of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import HTTPX_RECORDS, ROOT, in_forks
from tests.provider import CHAT, plain, serving
from trace_recorder import load


class Recorded(NamedTuple):
    """The runs of a program: for each task its questions, whether the run was inferred, and the number of gaps."""

    calls: dict[str | None, list[tuple[object, bool]]]
    gaps: int
    warnings: list[str]


Runs = Callable[[str], Recorded]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The directories of all programs."""
    return {name: tmp_path_factory.mktemp(name) for name in (*SCRIPTS, "notebook", *NOT_ALONE)}


@pytest.fixture(scope="module")
def recorded_by(places: dict[str, Path]) -> Runs:
    """Run all programs, and return a function that tells what one of them has recorded and logged."""
    call = "from tests.isolation import programs; programs.{}()"
    programs = {name: (call.format(name), place) for name, place in places.items()}
    with serving(plain(CHAT)) as server:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PROVIDER": server.url, "PYTHONWARNINGS": ""}
        processes = in_forks(programs, HTTPX_RECORDS, environment)

    def recorded_by(program: str) -> Recorded:
        ended = processes[program]
        assert ended.returncode == 0, ended.stderr
        runs = [load(path) for path in sorted((places[program] / "trajectories").glob("*.json"))]
        calls = {
            run.task: sorted((call.input_messages[0].content, call.run_inferred) for call in run.llm_interactions)  # type: ignore[type-var]
            for run in runs
        }
        assert len(calls) == len(runs)
        warnings = re.findall(r"^.*\(logged once\)$", ended.stderr, re.MULTILINE)
        return Recorded(calls, sum(len(run.gaps) for run in runs), warnings)

    return recorded_by


SCRIPTS = {
    "tasks_one_after_another": {
        f"task {number}": [("directly", False), ("in the pool", True), ("in the pool", True)] for number in range(10)
    },
    "asyncio_script": {
        "script": [
            ("in a task", False),
            ("in the executor", True),
            ("in the main task", False),
            ("in the pool", True),
            ("in to_thread", False),
        ]
    },
    "loop_script": {"script": [("in the pool", True)]},
    "trio_script": {"script": [("in the pool", True)]},
    "callbacks_and_generators": {"script": [("in a callback", True), ("in a generator", True)]},
    "marks_in_a_thread": {"script": [("marked", False)]},
    "instrumented_script": {"script": [("in the pool", True)]},
    "bound_client": {"script": [("in the pool", False)]},
}


@pytest.mark.parametrize("program", SCRIPTS)
def test_no_call_of_a_script_is_lost(program: str, recorded_by: Runs) -> None:
    """Each call of a script is in its run, and is marked if its context does not name the run."""
    assert recorded_by(program) == (SCRIPTS[program], 0, [])


def test_no_call_of_a_notebook_is_lost(recorded_by: Runs) -> None:
    """Cells have contexts of their own, and the run that one of them began has the calls of all."""
    recorded = recorded_by("notebook")

    assert recorded.calls.keys() == {"notebook"}
    assert [question for question, _ in recorded.calls["notebook"]] == [
        *("gathered", "in a cell without await", "in a later cell", "in its own cell", "in the pool")
    ]
    assert recorded[1:] == (0, [])


NOT_ALONE = {
    "service": {"alice": [("alice's first", False), ("alice's second", False)]},
    "service_with_callbacks": {"alice": []},
    "service_in_threads": {"alice": [("alice's first", False)]},
    "embedded_server": {"alice": [("alice's first", False)]},
    "several_runs": {"other": [], "script": [("directly", False)]},
    "run_after_several": {"first": [], "second": [], "script": [("directly", False)]},
    "dependency": {"request": [("in the step", False), ("in the step's thread", False)]},
}


@pytest.mark.parametrize("program", NOT_ALONE)
def test_no_call_is_in_the_run_of_another(program: str, recorded_by: Runs) -> None:
    """A call without a context is in no run, leaves no gap in a run, and is logged once, with what to do."""
    calls, gaps, warnings = recorded_by(program)

    assert (calls, gaps) == (NOT_ALONE[program], 0)
    [warning] = warnings
    assert re.match(r"(an LLM call|a sub-agent) is not recorded: no recorder is active", warning)
    assert "recorder.wrap(client)" in warning


def test_marks_without_a_context_belong_to_the_run_of_a_script(recorded_by: Runs, places: dict[str, Path]) -> None:
    """A step, a sub-agent, tools, an annotation and a reward in a thread are in the only run of a script."""
    recorded_by("marks_in_a_thread")

    [run] = [load(path) for path in (places["marks_in_a_thread"] / "trajectories").glob("*.json")]
    [step] = run.agent_steps
    assert (step.agent, sorted(result.name or "" for result in step.tool_results)) == ("researcher", ["look", "search"])
    assert (run.annotations, [(reward.name, reward.value) for reward in run.rewards]) == (
        {"topic": "marked"},
        [("found", 1)],
    )
