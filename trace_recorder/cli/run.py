"""The command `run`: records an agent that does not use this package."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from trace_recorder.attach.subprocess import supervisor as parent
from trace_recorder.cli import run_summary
from trace_recorder.cli.arguments import DEFAULT, default_directory
from trace_recorder.cli.output import warn
from trace_recorder.cli.text_layout import in_one_line
from trace_recorder.guard import try_call

Command = Annotated[
    list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="What to run.", show_default=False)
]
Task = Annotated[
    str | None, typer.Option("--task", metavar="WORDS", help="The task of the agent, as the file states it.")
]
TrajectoryFile = Annotated[
    Path | None,
    typer.Option(
        "--trajectory-file",
        metavar="FILE",
        help="The path of the file. By default, the file is named by its start time.",
    ),
]
InDirectory = Annotated[
    Path | None,
    typer.Option("--directory", metavar="DIR", help=f"The directory to write the files to. {DEFAULT}"),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print at the end what was recorded.")]


def run(
    command: Command = None,
    task: Task = None,
    trajectory_file: TrajectoryFile = None,
    directory: InDirectory = None,
    quiet: Quiet = False,
) -> None:
    """Run a command, and record the LLM calls of its Python processes.

    Each process that makes a call has its own file. The names of the files are printed on stderr at the end. Streams,
    signals and the exit code pass through. Python processes that are started with -I, -E or -S are not recorded, and
    neither are calls that use no client of httpx, httpx2, aiohttp, requests or urllib3.
    """
    command = required(command, "run")
    with starting("run"):
        ended = parent.run(command, directory or default_directory(), trajectory_file, task)
    if not quiet:
        report_recorded(ended, command)
    exit_as(ended.code)


def required(command: list[str] | None, usage: str) -> list[str]:
    """Return the command to run. If there is no command, print the usage and exit."""
    if command:
        return command
    name = usage.partition(" ")[0]
    warn(f"{name}: there is no command. Write it after two dashes: trace-recorder {usage} -- python agent.py")
    raise typer.Exit(2)


@contextmanager
def starting(name: str) -> Iterator[None]:
    """Print why a command cannot be started, and exit with the code that a shell uses."""
    try:
        yield
    except parent.CommandError as error:
        warn(f"{name}: {error}")
        raise typer.Exit(error.exit_code) from None


def exit_as(code: int) -> NoReturn:
    """Exit as a process did: with its exit code, or by the signal that ended it if the code is negative."""
    if code < 0:
        _exit_by_signal(-code)
    raise typer.Exit(code)


def report_recorded(ended: parent.CommandResult, command: Sequence[str]) -> None:
    """Print what was recorded."""
    report(run_summary.lines(ended, command))


def report(lines: Iterable[str]) -> None:
    """Print lines on stderr. A failure to print, or Ctrl-C, does not change the exit code."""

    def print_them() -> None:
        for line in lines:
            if line.startswith(" "):
                typer.echo(in_one_line(line), err=True)
            else:
                warn(line)

    with suppress(KeyboardInterrupt):
        try_call(print_them, lambda _: None)


def _exit_by_signal(number: int) -> NoReturn:
    """End by the signal that ended the agent, so that the caller sees it. A second core dump is prevented."""
    if os.name == "posix":
        import resource  # noqa: PLC0415 - Windows does not have it

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise typer.Exit(128 + number)
