"""A fixture of every framework's tests, which runs programs in separate directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.judgement import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Return a runner for the programs of a test."""
    return Runs(tmp_path)
