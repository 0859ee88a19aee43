"""The command `replay`: runs a program, and answers its LLM calls from the journal of a run.

The program does not have to use this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT
from trace_recorder.cli.list_runs import newest_run
from trace_recorder.cli.output import warn
from trace_recorder.cli.run import Command, exit_as, required, starting
from trace_recorder.cli.text_layout import in_one_line
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.rerun.subprocess.supervisor import replay_program

_MAX_MISMATCHES = 10
"""How many mismatches are printed."""


class Tools(StrEnum):
    """The behaviour when the program calls a recorded tool."""

    recorded = "recorded"
    live = "live"


class Match(StrEnum):
    """Additional differences that are allowed between two requests."""

    results_in_any_order = "results-in-any-order"


Recorded = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN]", help=f"The run. A directory stands for its newest run. {DEFAULT}", show_default=False
    ),
]
ToolsOption = Annotated[
    Tools,
    typer.Option("--tools", metavar="recorded|live", help="Return the recorded results of tools, or run the tools."),
]
Speed = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="NUMBER",
        help="Play streams this many times as fast as they were recorded. Default: without pauses.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="PATH",
        help="A member in which requests may differ, such as temperature or messages[0].content.",
    ),
]
MatchOption = Annotated[
    Match | None,
    typer.Option(
        "--match",
        metavar="results-in-any-order",
        help="Also allow another order of the tool results of one turn.",
    ),
]
AllowLive = Annotated[
    bool,
    typer.Option("--allow-live", help="Allow clients that are not replayed to connect to models.", show_default=False),
]
Loose = Annotated[bool, typer.Option("--loose", help="Report differences, but exit as the program did.")]


def replay(  # noqa: PLR0913, PLR0917 - one argument an option
    run: Recorded = None,
    command: Command = None,
    tools: ToolsOption = Tools.recorded,
    speed: Speed = None,
    ignore: Ignore = None,
    match: MatchOption = None,
    allow_live: AllowLive = False,
    loose: Loose = False,
) -> None:
    """Run a command whose LLM calls are answered from a run.

    The command needs neither a key nor a network. Exits as the command did. The exit code is 1 if the command exited
    with 0 but made a call that was not recorded, or left out a recorded call. The differences are printed on stderr at
    the end. Processes that `run` cannot record are not replayed either. HTTP clients of Python that are not replayed
    may not connect to a model.
    """
    command = required(command, "replay [RUN]")
    check_speed(speed)
    with starting("replay"), refusing_paths():
        result = replay_program(
            command,
            newest_run(run),
            ignore=ignore or (),
            results_in_any_order=match is not None,
            speed=speed,
            allow_live=allow_live,
            tools=tools.value,
        )
    report(result.mismatches, result.unused)
    differs = bool(result.mismatches or result.unused)
    exit_as(1 if differs and not loose and result.code == 0 else result.code)


def check_speed(speed: float | None) -> None:
    """Raise BadParameter for a speed that is not above 0."""
    if speed is not None and speed <= 0:
        raise typer.BadParameter("it must be above 0", param_hint="--speed")


@contextmanager
def refusing_paths() -> Iterator[None]:
    """Raise BadParameter for a value of `--ignore` that cannot be parsed."""
    try:
        yield
    except TrajectoryFormatError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--ignore") from None


def report(mismatches: Sequence[str], problem: str | None) -> None:
    """Print the mismatches, and the problem if there is one.

    The first line of a mismatch is a sentence of this package. The other lines are indented below it.
    """
    for text in mismatches[:_MAX_MISMATCHES]:
        first, *lines = text.splitlines()
        warn(first)
        for line in lines:
            typer.echo(f"  {in_one_line(line.strip())}", err=True)
    if len(mismatches) > _MAX_MISMATCHES:
        warn(f"{len(mismatches) - _MAX_MISMATCHES} more calls were not recorded")
    if problem:
        warn(problem)
