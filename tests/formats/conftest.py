"""Every run of `runs.py`, recorded once for all tests of views."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.formats.runs import every
from trace_recorder import Trajectory, load


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Record all runs of `runs.py`, and return the path of each run."""
    return every(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def trajectories(paths: Mapping[str, Path]) -> Mapping[str, Trajectory]:
    """Return each run, loaded from its file."""
    return {name: load(path) for name, path in paths.items()}
