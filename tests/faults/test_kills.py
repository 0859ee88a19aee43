"""An agent is killed at a random moment: its files are valid, and have everything that the agent reported.

Every kind of agent dies in one to three ways, and every way of dying is that of several kinds. A search tries every
pair. `scripts/kill` does thousands, and prints them in a table.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.judging import judge
from tests.faults.killing import PAIRS, STALLING, Kill, Zygote
from tests.searching import part_of
from trace_recorder import TrajectoryRecorder, load


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory in which an agent records."""
    directory = tmp_path / "run"
    directory.mkdir()
    return directory


@pytest.mark.parametrize(
    ("variant", "dying"), [*part_of(PAIRS, 3), *STALLING[:2]], ids=lambda one: one.replace(" ", "-")
)
def test_a_killed_agent_leaves_everything_that_it_reported(
    variant: str, dying: str, directory: Path, zygote: Zygote
) -> None:
    """Every returned call has its answer, every open call is shown, and every document is JSON."""
    kill = Kill.random(Random(f"{variant} {dying}"), variant, dying)

    death = zygote.kill(kill, directory)

    assert judge(kill, death, directory).problems == []


@pytest.mark.parametrize("dying", ["SIGKILL", "os._exit"])
def test_the_next_run_can_use_the_path(dying: str, directory: Path, zygote: Zygote) -> None:
    """After a kill, a run at the same path gets that path, and the interrupted run is kept completely under a
    number.
    """
    death = zygote.kill(Kill("8 threads", dying, 400, reports=20, seconds=0.003), directory)

    with TrajectoryRecorder(directory / "run.json", task="next") as recorder:
        recorder.annotate("a", 1)

    before, after = load(directory / "run.1.json"), load(directory / "run.json")
    answered = {call.input_messages[-1].content for call in before.llm_interactions if call.complete}
    assert (before.task, before.status, answered >= set(death.said("answered"))) == ("die", "interrupted", True)
    assert (recorder.trajectory_path.name, after.task, after.status) == ("run.json", "next", "completed")
