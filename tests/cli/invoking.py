"""A command of the program, run in this process, and a small run to give to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from trace_recorder import TrajectoryRecorder
from trace_recorder.cli.app import app_for
from trace_recorder.values.messages import Payload


def invoke(*arguments: object, stdin: str | None = None, environment: Mapping[str, str] | None = None) -> Result:
    """Run a command, and return its result. As in the program, only this command is built."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app_for(words), words, input=stdin, env=environment, prog_name="trace-recorder")


def recorded(
    path: Path, answer: str = "a", *, success: bool | None = True, metadata: dict[str, Payload] | None = None
) -> Path:
    """Write and return a run of one call."""
    with TrajectoryRecorder(path, task="ask", metadata=metadata) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": answer}, "openai", "m")
        recorder.finalize(success=success)
    return path
