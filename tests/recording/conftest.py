"""A fixture for a strict recorder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_recorder import TrajectoryRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[TrajectoryRecorder]:
    """A running recorder that raises failures of recording."""
    with TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        yield recorder
