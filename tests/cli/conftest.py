"""Fixtures for all tests of the command line: a terminal, and a provider for programs. Help texts get a fixed width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import Place
from tests.provider import CHAT, Server, plain, serving


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which bars can be drawn, of a known width."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")


@pytest.fixture
def server() -> Iterator[Server]:
    """A provider that gives the same answer to each call."""
    with serving(plain(CHAT)) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str]) -> Place:
    """A directory for programs. Their environment names the test server as the provider."""
    return Place(tmp_path, server, capfd)
