"""The command `fork`: a program that knows nothing of this package repeats a run up to a call, and goes on live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.attach.subprocess.supervisor import CommandError
from trace_recorder.cli.list_runs import newest
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.read_files import UnreadableError, is_directory
from trace_recorder.cli.replay import Command, Ignore, Loose, Recorded, Speed, report
from trace_recorder.cli.run import Quiet, TrajectoryFile, exit_as, report_recorded
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.rerun.subprocess.fork_supervisor import ForkResult, fork_program

At = Annotated[
    str, typer.Option("--at", metavar="STEP|ID", help="The first call that is made: of this step, or of this id.")
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model to ask from there on.")]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="The system prompt from there on.")]
SystemFile = Annotated[
    Path | None, typer.Option("--system-file", metavar="FILE", help="The same, as the text of a file.")
]
Answer = Annotated[
    Path | None,
    typer.Option("--answer", metavar="FILE", help="Answer that call with this, a response's JSON or a stream's text."),
]
Directory = Annotated[
    Path | None, typer.Option("--directory", metavar="DIR", help="Default: where the run is that is continued.")
]


def fork(  # noqa: PLR0913, PLR0917 - one argument an option
    run: Recorded,
    at: At,
    command: Command = None,
    model: Model = None,
    system: System = None,
    system_file: SystemFile = None,
    answer: Answer = None,
    ignore: Ignore = None,
    speed: Speed = None,
    trajectory_file: TrajectoryFile = None,
    directory: Directory = None,
    quiet: Quiet = False,
    loose: Loose = False,
) -> None:
    """Run a command that repeats a run up to a call, and goes on live from there.

    What was recorded before that call is given, tools too; that call and all that follow are made, with the keys in the
    environment. All of it is recorded in a run of its own, which names the one that it continues. Exits as the command
    did; with 1 if the command exited with 0 and did not repeat the run up to there. Not reached are the processes that
    `run` does not reach.
    """
    if not command:
        warn("fork: there is no command. Give it behind two dashes: trace-recorder fork RUN --at 7 -- python agent.py")
        raise typer.Exit(2)
    if speed is not None and speed <= 0:
        raise typer.BadParameter("it has to be above 0", param_hint="--speed")
    if system is not None and system_file is not None:
        raise typer.BadParameter("--system and --system-file are two ways to say one thing")
    try:
        ended = fork_program(
            command,
            newest(run) if is_directory(run) else run,
            int(at) if at.isdecimal() else at,
            model=model,
            system=_read(system_file, "--system-file") if system_file else system,
            answer=_read(answer, "--answer") if answer else None,
            ignore=ignore or (),
            speed=speed,
            directory=directory,
            file=trajectory_file,
        )
    except CommandError as error:
        warn(f"fork: {error}")
        raise typer.Exit(error.exit_code) from None
    except (TrajectoryFormatError, UnreadableError, ValueError) as error:
        fail(str(error))
    if not quiet:
        report_recorded(ended.recorded, command)
    report(ended.mismatches, ended.problem)
    exit_as(_code(ended, loose=loose))


def _read(file: Path, option: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint=option) from None


def _code(ended: ForkResult, *, loose: bool) -> int:
    differs = bool(ended.mismatches or ended.problem)
    return 1 if differs and not loose and ended.recorded.code == 0 else ended.recorded.code
