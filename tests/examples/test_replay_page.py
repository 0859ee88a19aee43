"""The page docs/replay.md: every block of code runs unchanged, and replays need no server."""

from __future__ import annotations

import re
from pathlib import Path

from tests.examples.environment import environment
from tests.processes import OPENAI_RECORDS, ROOT, in_forks
from tests.provider import CHAT, plain, serving

PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
AGENT, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_block_runs(tmp_path: Path) -> None:
    """The first block of the page records from a server, and the other blocks run in the same directory without it."""
    first, *others = BLOCKS
    with serving(plain(CHAT)) as server:
        surroundings = environment(server.url, tmp_path)
        printed = run([first], surroundings, tmp_path)
    printed += run(others, surroundings, tmp_path)

    promised = [re.findall(r"print\(\w.*\)  # (?:… )?(.*)", block) for block in (first, *others)]
    assert [promise for one, out in zip(promised, printed, strict=True) for promise in one if promise not in out] == []
    assert [out for out, one in zip(printed, promised, strict=True) if out and not one] == ["really deleting a.py\n"]
    assert sum(map(len, promised)) == 2


def run(blocks: list[str], surroundings: dict[str, str], place: Path) -> list[str]:
    """Run blocks, which must succeed without output on stderr, and return their outputs."""
    programs = {str(number): (AGENT + block, place) for number, block in enumerate(blocks)}
    ended = in_forks(programs, OPENAI_RECORDS, surroundings)
    assert [(done.returncode, done.stderr) for done in ended.values()] == [(0, "")] * len(blocks)
    return [done.stdout for done in ended.values()]
