"""The command `fork`: a program that does not use this package repeats a run up to a call, and continues live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.list_runs import newest_run
from trace_recorder.cli.output import fail
from trace_recorder.cli.replay import AllowLive, Ignore, Loose, MatchOption, Recorded, Speed, check_speed, report
from trace_recorder.cli.run import Command, Quiet, TrajectoryFile, exit_as, report_recorded, required, starting
from trace_recorder.rerun.subprocess.fork_supervisor import ForkResult, fork_program

At = Annotated[
    str,
    typer.Option(
        "--at", metavar="STEP|ID", help="The first call that is made live: the number of its step, or its id."
    ),
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model from that call on.")]
System = Annotated[str | None, typer.Option("--system", metavar="PROMPT", help="The system prompt from that call on.")]
SystemFile = Annotated[
    Path | None, typer.Option("--system-file", metavar="FILE", help="A file with the system prompt from that call on.")
]
Answer = Annotated[
    Path | None,
    typer.Option(
        "--answer",
        metavar="FILE",
        help="A file with the answer to that call: the JSON of a response, or the text of a stream.",
    ),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="Where the new run is written. Default: the directory of the run that is continued.",
    ),
]


def fork(  # noqa: PLR0913, PLR0917 - one argument an option
    at: At,
    run: Recorded = None,
    command: Command = None,
    model: Model = None,
    system: System = None,
    system_file: SystemFile = None,
    answer: Answer = None,
    ignore: Ignore = None,
    match: MatchOption = None,
    speed: Speed = None,
    trajectory_file: TrajectoryFile = None,
    directory: Directory = None,
    quiet: Quiet = False,
    allow_live: AllowLive = False,
    loose: Loose = False,
) -> None:
    """Repeat a run up to a call, and continue live from there.

    Runs the command. Calls and tools before that call get their recorded answers. That call and all later ones are made
    with the keys in the environment. All calls and tools are recorded in a new run, which names the run that it
    continues. Exits as the command did, or with 1 if the command exited with 0 without repeating the run up to that
    call. The help of `run` says which processes cannot be recorded; their calls cannot be answered either.
    """
    command = required(command, "fork [RUN] --at 7")
    check_speed(speed)
    prompt = _system_prompt(system, system_file)
    try:
        with starting("fork"):
            result = fork_program(
                command,
                newest_run(run),
                int(at) if at.isdecimal() else at,
                model=model,
                system=prompt,
                answer=_read(answer, "--answer"),
                ignore=ignore or (),
                results_in_any_order=match is not None,
                speed=speed,
                allow_live=allow_live,
                directory=directory,
                file=trajectory_file,
            )
    except ValueError as error:
        fail(str(error))
    if not quiet:
        report_recorded(result.recorded, command)
    report(result.mismatches, result.problem)
    exit_as(_code(result, loose=loose))


def _system_prompt(text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise typer.BadParameter("--system and --system-file mean the same: give only one")
    return text if file is None else _read(file, "--system-file")


def _read(file: Path | None, option: str) -> str | None:
    try:
        return None if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint=option) from None


def _code(result: ForkResult, *, loose: bool) -> int:
    differs = bool(result.mismatches or result.problem)
    return 1 if differs and not loose and result.recorded.code == 0 else result.recorded.code
