"""The provider to which the proxy forwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider import CHAT, Server, plain, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(plain(CHAT)) as server:
        yield server
