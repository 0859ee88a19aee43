"""Fixtures of all tests of replays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rerun.plugin_runs import Project
from tests.rerun.runs import made_clients


@pytest.fixture(autouse=True)
def _closed_clients() -> Iterator[None]:
    """Close every client after its test."""
    yield
    while made_clients:
        made_clients.pop().close()


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with tests of an agent."""
    return Project(pytester, monkeypatch)
