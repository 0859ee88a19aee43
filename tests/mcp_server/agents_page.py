"""Reads the configurations of docs/agents.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.processes import ROOT

PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
COMMAND = "trace-recorder"


def configuration(program: str) -> str:
    """Return the block with a program's configuration, JSON or TOML."""
    section = PAGE.partition(f"\n### {program}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    [block] = re.findall(r"```(?:json|toml)\n(.*?)```", section, re.DOTALL)
    return str(block)


def written_configuration(program: str, runs: Path) -> str:
    """Return a configuration with the directory of some runs, and with this package's own command."""
    text = configuration(program)
    path = Path(sys.executable).with_name(COMMAND)
    assert text.count(f'"{COMMAND}"') == text.count('"/home/me/project/trajectories"') == 1
    return text.replace(f'"{COMMAND}"', f'"{path}"').replace('"/home/me/project/trajectories"', f'"{runs}"')
