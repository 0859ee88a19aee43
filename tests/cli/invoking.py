"""A command of the program, run in this process, and a small run to give to it."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from trace_recorder import TrajectoryRecorder
from trace_recorder.cli.app import COMMANDS, app_of
from trace_recorder.values.messages import Payload

app = app_of(COMMANDS)
"""All commands."""


def invoke(*arguments: object) -> Result:
    """Run a command, and return its result."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="trace-recorder")


def recorded(
    path: Path, answer: str = "a", *, success: bool | None = True, metadata: dict[str, Payload] | None = None
) -> Path:
    """Write and return a run of one call."""
    with TrajectoryRecorder(path, task="ask", metadata=metadata) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": answer}, "openai", "m")
        recorder.finalize(success=success)
    return path
