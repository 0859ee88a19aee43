"""A proxy, and the provider to which it forwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider import CHAT, Server, plain, serving
from tests.proxy.running import RunningProxy, proxying


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(plain(CHAT)) as server:
        yield server


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[RunningProxy]:
    with proxying(tmp_path, {"openai": server.url}, command=["agent"]) as proxy:
        yield proxy
