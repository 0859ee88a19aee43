"""The page docs/replay.md: every block of code runs unchanged, and replays need no server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.examples.environment import environment
from tests.processes import ROOT
from tests.provider import CHAT, plain, serving

PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
AGENT, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_runs(tmp_path: Path) -> None:
    """The first block of the page records from a server, and the other blocks run in the same directory without it."""
    first, *others = BLOCKS
    with serving(plain(CHAT)) as server:
        surroundings = environment(server.url, tmp_path)
        printed = [run(first, surroundings, tmp_path)]
    printed += [run(block, surroundings, tmp_path) for block in others]

    promised = [re.findall(r"print\(\w.*\)  # (?:… )?(.*)", block) for block in (first, *others)]
    assert [promise for one, out in zip(promised, printed, strict=True) for promise in one if promise not in out] == []
    assert [out for out, one in zip(printed, promised, strict=True) if out and not one] == ["really deleting a.py\n"]
    assert sum(map(len, promised)) == 2


def run(block: str, surroundings: dict[str, str], place: Path) -> str:
    """Run a block, which must succeed without output on stderr, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", AGENT + block], cwd=place, env=surroundings, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
