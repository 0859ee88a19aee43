"""The command `run`: records an agent that does not use this package.

At the end, the command prints what was recorded and in which files, or why nothing was recorded. Without this message,
users would notice a missing recording only when they look for the file. The other commands that run a program, such as
`proxy`, report and exit by the functions of this file.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from trace_recorder.attach.subprocess import supervisor as parent
from trace_recorder.attach.subprocess.supervisor import CommandResult
from trace_recorder.capture.unseen_clients import advice
from trace_recorder.cli.arguments import DEFAULT, default_directory
from trace_recorder.cli.list_runs import read_summary
from trace_recorder.cli.output import warn
from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.cli.text_layout import in_one_line, pluralize
from trace_recorder.guard import ignore_failures
from trace_recorder.recording.process import RECORDED_UNDER
from trace_recorder.storage.paths import absolute_path
from trace_recorder.values.metrics import metrics_of

Command = Annotated[
    list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="The command to run.", show_default=False)
]
Task = Annotated[
    str | None, typer.Option("--task", metavar="WORDS", help="The task of the agent, to be recorded in the file.")
]
SessionOption = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="NAME", help="A name for all runs that belong together, such as the id of a chat."
    ),
]
TrajectoryFile = Annotated[
    Path | None,
    typer.Option(
        "--trajectory-file",
        metavar="FILE",
        help="The path of the file to write. Default: a name with the start time.",
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
    session: SessionOption = None,
    trajectory_file: TrajectoryFile = None,
    directory: InDirectory = None,
    quiet: Quiet = False,
) -> None:
    """Run a command, and record the LLM calls of its Python processes.

    Each process that makes a call has its own file. The names of the files are printed on stderr at the end. The
    command uses the standard streams of `trace-recorder`, which forwards signals and exits with the command's exit
    code. Only calls by httpx, httpx2, aiohttp, requests, urllib3 or websockets are recorded. Python processes that are
    started with -I, -E or -S are not recorded.
    """
    command = required(command, "run")
    with starting("run"):
        result = parent.run(command, directory or default_directory(), trajectory_file, task, session)
    if not quiet:
        report_recorded(result, command)
    exit_as(result.code)


def required(command: list[str] | None, usage: str) -> list[str]:
    """Return the command to run. If there is no command, print how to give one, and exit."""
    if command:
        return command
    name = usage.partition(" ")[0]
    warn(f"{name}: there is no command. Write it after two dashes: trace-recorder {usage} -- python agent.py")
    raise typer.Exit(2)


@contextmanager
def starting(name: str) -> Iterator[None]:
    """Run the block.

    If a program cannot be started in the block, print why, and exit with the code that a shell uses for this failure.
    """
    try:
        yield
    except parent.CommandError as error:
        warn(f"{name}: {error}")
        raise typer.Exit(error.exit_code) from None


def exit_as(code: int) -> NoReturn:
    """Exit as a process did: with the exit code `code`, or by signal n if `code` is -n."""
    if code < 0:
        _exit_by_signal(-code)
    raise typer.Exit(code)


@contextmanager
def until_stopped() -> Iterator[None]:
    """End the block, without an exception, at Ctrl-C or SIGTERM."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, interrupt)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def report_recorded(result: parent.CommandResult, command: Sequence[str]) -> None:
    """Print on stderr what was recorded, or why nothing was recorded."""
    report_lines(_lines(result, command))


def report_lines(lines: Iterable[str]) -> None:
    """Print lines on stderr. A failure to print, or Ctrl-C, does not change the exit code."""
    with suppress(KeyboardInterrupt), ignore_failures:
        for line in lines:
            if line.startswith(" "):
                typer.echo(in_one_line(line), err=True)
            else:
                warn(line)


def _exit_by_signal(number: int) -> NoReturn:
    """End this process by the signal that ended the agent, so that the caller sees the same signal.

    This process writes no core dump, because the agent may have written a core dump already.
    """
    if os.name == "posix":
        import resource  # noqa: PLC0415 - Windows does not have it

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise typer.Exit(128 + number)


_MAX_LISTED = 10
"""The summary of a command names at most this many files, and counts the others."""
_PYTHON = re.compile(r"python[\d.]*w?(\.exe)?", re.IGNORECASE)
_ISOLATING_OPTIONS = "ISE"
"""Options with which Python ignores PYTHONPATH or `sitecustomize` at its start."""
_OPTIONS_WITH_ARGUMENT = "cmWX"
_METRICS = (
    ("llm_calls", "failed_llm_calls", "LLM call"),
    ("replayed_llm_calls", "", "replayed LLM call"),
    ("tool_calls", "failed_tool_calls", "tool call"),
)


def _lines(result: CommandResult, command: Sequence[str]) -> Iterator[str]:
    """Yield lines about what a command recorded, or why it recorded nothing."""
    if result.documents:
        yield from recorded_lines(result.documents)
        if result.unseen:
            yield f"some calls may be missing: {advice(result.unseen)}"
    else:
        yield f"nothing was recorded: {_reason(result, command)}"


def recorded_lines(documents: Sequence[Path]) -> Iterator[str]:
    """Yield lines that state how much was recorded, and in which files."""
    files = []
    for path in documents:
        name = str(_from_here(path))
        with ignore_failures:
            if RECORDED_UNDER in read_summary(path).metadata:
                name += " (by the program's own recorder)"
        files.append(name)
    if len(files) == 1:
        yield f"recorded {_amount(documents)}: {files[0]}"
        return
    yield f"recorded {_amount(documents)}:"
    yield from (f"  {file}" for file in files[:_MAX_LISTED])
    if len(files) > _MAX_LISTED:
        yield f"  and {len(files) - _MAX_LISTED} more"


def _from_here(path: Path) -> Path:
    """Return the relative path of a file below the working directory. Return any other path unchanged."""
    here = absolute_path(Path())
    if path.is_relative_to(here):
        return path.relative_to(here)
    return path


def _amount(documents: Sequence[Path]) -> str:
    """Return how many runs, calls and tools the documents have, and how many calls and tools failed, as text."""
    figures: Counter[str] = Counter()
    for path in documents:
        figures.update(_figures(path))
    parts = [pluralize(len(documents), "run")]
    for name, failed, noun in _METRICS:
        if not figures[name] and name != "llm_calls":
            continue
        amount = pluralize(figures[name], noun)
        if figures[failed]:
            amount += f" ({figures[failed]} failed)"
        parts.append(amount)
    if figures["unreadable"]:
        parts.append(f"{figures['unreadable']} that cannot be read")
    return ", ".join(parts)


def _figures(path: Path) -> dict[str, int]:
    """Return the counts of a run, or one count "unreadable" if the run cannot be read."""
    try:
        run = read_summary(path)
    except UnreadableError:
        return {"unreadable": 1}
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    return {name: count for name, count in metrics.items() if isinstance(count, int)}


def _reason(result: CommandResult, command: Sequence[str]) -> str:
    if result.disabled:
        return "TRACE_RECORDER_DISABLED is set"
    if result.has_recorder:
        return "the files could not be created, or were removed; the agent's own output has the reason"
    if result.unseen:
        return advice(result.unseen)
    if result.imported_http_library:
        return "no LLM call was made through httpx, httpx2, aiohttp, requests or urllib3"
    option = _isolating_option(command)
    if option:
        return f"Python was started with -{option}, which keeps it from loading the recorder"
    return (
        "no Python process of the command used httpx, httpx2, aiohttp, requests or urllib3. The command may start "
        "Python with -I, -S or -E or in an environment of its own, call no model, or not be a Python program: "
        "`trace-recorder proxy` records any program"
    )


def _isolating_option(command: Sequence[str]) -> str | None:
    """Return the option of Python in the command line that prevents Python from loading this package, or None."""
    words = iter(command)
    for word in words:
        if _PYTHON.fullmatch(os.path.basename(word)):  # noqa: PTH119 - any word
            break
    for word in words:  # the words after Python's name
        if not re.fullmatch("-[A-Za-z]+", word):
            return None
        for letter in word[1:]:
            if letter in _ISOLATING_OPTIONS:
                return letter
            if letter in _OPTIONS_WITH_ARGUMENT:
                return None
    return None
