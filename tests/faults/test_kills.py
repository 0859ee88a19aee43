"""An agent is killed at a random moment: what it leaves is in order, and holds all that it had reported.

A few kills for every kind of agent and every way of dying; `scripts/kill` does thousands, and tells them in a table.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.agent import VARIANTS
from tests.faults.judging import judge
from tests.faults.killing import DYING, Kill, Zygote
from trace_recorder import TrajectoryRecorder, load

PAIRS = [(variant, dying) for variant in VARIANTS for dying in DYING if variant != "stalling"]
SIGNALS = [("stalling", dying) for dying in ("SIGKILL", "SystemExit in a block")]


@pytest.mark.parametrize(("variant", "dying"), [*PAIRS, *SIGNALS], ids=lambda one: one.replace(" ", "-"))
def test_a_killed_agent_leaves_all_that_it_reported(
    variant: str, dying: str, tmp_path: Path, zygote: Zygote, subtests_of_kills: int
) -> None:
    """Every call that returned is on file with its answer, every call in flight is shown, every document is JSON."""
