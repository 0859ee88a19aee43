"""A command of the program, run in this process, and a small run to give to it.

The program builds one command in its life. Here each command is built once for all tests, because typer takes half of
the time of a small command to build it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner, Result

from trace_recorder import TrajectoryRecorder
from trace_recorder.cli.app import COMMANDS, app_for, app_of
from trace_recorder.values.messages import Payload


def invoke(*arguments: object, stdin: str | None = None, environment: Mapping[str, str] | None = None) -> Result:
    """Run a command, and return its result. As in the program, only this command is built."""
    words = [str(argument) for argument in arguments]
    app = _app_of(words[0]) if words and words[0] in COMMANDS else app_for(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", _built)
        return CliRunner().invoke(app, words, input=stdin, env=environment, prog_name="trace-recorder")


@cache
def _app_of(name: str) -> typer.Typer:
    return app_of([name])


_built = cache(get_command)


def recorded(
    path: Path, answer: str = "a", *, success: bool | None = True, metadata: dict[str, Payload] | None = None
) -> Path:
    """Write and return a run of one call."""
    with TrajectoryRecorder(path, task="ask", metadata=metadata) as recorder:
        recorder.record_llm_interaction([{"role": "user", "content": "q"}], {"content": answer}, "openai", "m")
        recorder.finalize(success=success)
    return path
