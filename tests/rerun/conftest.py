"""What the tests of the plugin share."""

from __future__ import annotations

import pytest

from tests.rerun.plugin_runs import Project


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that has tests of an agent."""
    return Project(pytester, monkeypatch)
