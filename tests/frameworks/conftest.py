"""Shared by the tests of every framework: programs that run in a directory of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.judgement import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """How the programs of a test are run."""
    return Runs(tmp_path)
