"""The command `skill`: prints a skill file, which tells a coding agent how to read recorded runs."""

from __future__ import annotations

import sys
from importlib.resources import files


def skill() -> None:
    """Print a skill file for coding agents: what the files are, and which command or MCP tool answers what.

    Save it as `trace-recorder/SKILL.md` in the agent's directory of skills: docs/agents.md lists these directories.
    """
    sys.stdout.write(files("trace_recorder.cli").joinpath("SKILL.md").read_text("utf-8"))
