"""A killed tap, server or proxy costs no message that the client received. `tests.mcp_tap.kills` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcp_tap.kills import VICTIMS, kill_once


@pytest.mark.parametrize("seed", range(len(VICTIMS)), ids=VICTIMS)
def test_what_the_client_received_is_on_file(seed: int, tmp_path: Path) -> None:
    """The requests and the answers are on file, and the tap ends as its server."""
    received, problems = kill_once(seed, tmp_path)

    assert problems == []
    assert received > 0
