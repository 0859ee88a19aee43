"""Fixtures of every framework's tests: programs that run in separate directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.judgement import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """A runner for the programs of a test."""
    return Runs(tmp_path)
