"""The commands that answer LLM calls from the journal of a run: `replay`, `fork` and `serve`.

`replay` runs a program, and answers all its calls from the run. `fork` runs a program, answers its calls from the run
up to a given call, and sends that call and all later calls to the provider. `serve` is a local server that programs in
any language use as their provider. No program has to import this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT
from trace_recorder.cli.list_runs import newest_run
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.run import (
    Command,
    Quiet,
    TrajectoryFile,
    exit_as,
    report_recorded,
    required,
    starting,
    until_stopped,
)
from trace_recorder.cli.text_layout import in_one_line, pluralize
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.loopback import HOST
from trace_recorder.storage.byte_order_marks import read_text

if TYPE_CHECKING:
    from trace_recorder.rerun.serving import ReplayServer

_MAX_MISMATCHES = 10
"""At most this many mismatches are printed."""


class ToolsChoice(StrEnum):
    """What happens when the program calls a tool: the recorded result is returned, or the tool runs."""

    recorded = "recorded"
    live = "live"


class Match(StrEnum):
    """Additional differences that are allowed between a request of the program and a recorded request."""

    results_in_any_order = "results-in-any-order"


Recorded = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN]", help=f"The run. A directory stands for its newest run. {DEFAULT}", show_default=False
    ),
]
ToolsOption = Annotated[
    ToolsChoice,
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
        help="A member in which a request may differ from the recorded request, such as messages[0].content.",
    ),
]
MatchOption = Annotated[
    Match | None,
    typer.Option(
        "--match",
        metavar="results-in-any-order",
        help="Accept the tool results of one turn in any order.",
    ),
]
AllowLive = Annotated[
    bool,
    typer.Option("--allow-live", help="Allow clients that are not replayed to connect to models.", show_default=False),
]
Loose = Annotated[bool, typer.Option("--loose", help="Report differences, but exit as the program did.")]


def replay(  # noqa: PLR0913, PLR0917 - one argument for each option
    run: Recorded = None,
    command: Command = None,
    tools: ToolsOption = ToolsChoice.recorded,
    speed: Speed = None,
    ignore: Ignore = None,
    match: MatchOption = None,
    allow_live: AllowLive = False,
    loose: Loose = False,
) -> None:
    """Run a command whose LLM calls are answered from a recorded run.

    The command needs neither a key nor a network. Exits as the command did. The exit code is 1 if the command exited
    with 0 but made a call that was not recorded, or left out a recorded call. The differences are printed on stderr at
    the end. A process that `trace-recorder run` cannot record is not replayed either. If an HTTP client of Python
    cannot be replayed, it is kept from connecting to a model.
    """
    from trace_recorder.rerun.subprocess.supervisor import replay_program  # noqa: PLC0415 - only this command needs it

    command = required(command, "replay [RUN]")
    check_speed(speed)
    with starting("replay"), refusing_paths():
        result = replay_program(
            command,
            newest_run(run, "replay"),
            ignore=ignore or (),
            results_in_any_order=match is not None,
            speed=speed,
            allow_live=allow_live,
            tools=tools.value,
        )
    report_mismatches(result.mismatches, result.unused)
    if result.code == 0 and not loose and (result.mismatches or result.unused):
        exit_as(1)
    exit_as(result.code)


def check_speed(speed: float | None) -> None:
    """Raise BadParameter for a speed that is not above 0."""
    if speed is not None and speed <= 0:
        raise typer.BadParameter("it must be above 0", param_hint="--speed")


@contextmanager
def refusing_paths() -> Iterator[None]:
    """Run the block. Raise BadParameter if a value of `--ignore` cannot be parsed in the block."""
    try:
        yield
    except TrajectoryFormatError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--ignore") from None


def report_mismatches(mismatches: Sequence[str], problem: str | None) -> None:
    """Print the mismatches, and then the message `problem` if it is not None.

    The first line of a mismatch is a sentence of this package. The other lines are indented below the first line.
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


At = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="STEP|ID",
        help="The first call that is sent to the provider: the number of its step, or its id.",
    ),
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model of the --at call and all later calls.")
]
System = Annotated[
    str | None,
    typer.Option("--system", metavar="PROMPT", help="The system prompt of the --at call and all later calls."),
]
SystemFile = Annotated[
    Path | None,
    typer.Option(
        "--system-file", metavar="FILE", help="A file with the system prompt of the --at call and all later calls."
    ),
]
AnswerOption = Annotated[
    Path | None,
    typer.Option(
        "--answer",
        metavar="FILE",
        help="A file with the answer to the --at call: the JSON of a response, or the text of a stream.",
    ),
]
Directory = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        metavar="DIR",
        help="The directory to write the new run to. Default: the directory of the run that is continued.",
    ),
]


def fork(  # noqa: PLR0913, PLR0917 - one argument for each option
    at: At,
    run: Recorded = None,
    command: Command = None,
    model: Model = None,
    system: System = None,
    system_file: SystemFile = None,
    answer: AnswerOption = None,
    ignore: Ignore = None,
    match: MatchOption = None,
    speed: Speed = None,
    trajectory_file: TrajectoryFile = None,
    directory: Directory = None,
    quiet: Quiet = False,
    allow_live: AllowLive = False,
    loose: Loose = False,
) -> None:
    """Repeat a run up to a call, and send that call and later calls.

    Calls and tools before the --at call get their recorded answers. The --at call and all later calls are sent to the
    provider, with the keys in the environment. All calls and tools are recorded in a new run, which names the run that
    it continues. Exits as the command did, or with 1 if the command exited with 0 without repeating the run up to the
    --at call. `trace-recorder run --help` says which processes cannot be recorded; their calls cannot be answered
    either.
    """
    from trace_recorder.rerun.subprocess.fork_supervisor import fork_program  # noqa: PLC0415 - as above

    command = required(command, "fork [RUN] --at 7")
    check_speed(speed)
    if system is not None and system_file is not None:
        raise typer.BadParameter("--system and --system-file mean the same: give only one")
    if system_file is not None:
        system = _read(system_file, "--system-file")
    try:
        with starting("fork"):
            recorded = newest_run(run, "fork")
            at_call: int | str = at
            if at.isdecimal():
                at_call = int(at)
            answer_text = None
            if answer is not None:
                answer_text = _read(answer, "--answer")
            result = fork_program(
                command,
                recorded,
                at_call,
                model=model,
                system=system,
                answer=answer_text,
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
    report_mismatches(result.mismatches, result.problem)
    if result.recorded.code == 0 and not loose and (result.mismatches or result.problem):
        exit_as(1)
    exit_as(result.recorded.code)


def _read(file: Path, option: str) -> str:
    try:
        return read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint=option) from None


Port = Annotated[
    int,
    typer.Option("--port", metavar="NUMBER", min=0, max=65535, help="The port on 127.0.0.1. Default: any free port."),
]


def serve(  # noqa: PLR0913, PLR0917 - one argument for each option
    run: Recorded = None,
    port: Port = 0,
    speed: Speed = None,
    ignore: Ignore = None,
    match: MatchOption = None,
    loose: Loose = False,
) -> None:
    """Answer LLM calls over HTTP on 127.0.0.1, from a recorded run.

    The command prints the environment variables that direct SDKs to this server. Any key is accepted. Each recorded
    call answers one request. A request that equals no recorded request gets 404, with the differences. The server ends
    at Ctrl-C or SIGTERM. Exits with 1 if a request was not recorded, or a recorded call was not requested.
    """
    from trace_recorder.rerun.matching import results_in_any_order  # noqa: PLC0415 - as above
    from trace_recorder.rerun.replayer import Replay, report_unused  # noqa: PLC0415
    from trace_recorder.rerun.serving import ReplayServer  # noqa: PLC0415

    check_speed(speed)
    with refusing_paths():
        replay = Replay(
            newest_run(run, "serve"), speed=speed, ignore=ignore or (), match=results_in_any_order if match else None
        )
    try:
        server = ReplayServer(replay, port, lambda message: report_mismatches([message], None))
    except OSError as error:
        fail(f"port {port} of {HOST} cannot be used: {error.strerror}")
    with server, until_stopped():  # a signal may come as soon as the addresses are printed
        _print_addresses(server)
        server.serve_forever(poll_interval=0.1)
    unused = replay.unused
    if unused:
        report_mismatches([], report_unused(replay.recording.path.name, unused))
    if (replay.mismatch or unused) and not loose:
        raise typer.Exit(1)


def _print_addresses(server: ReplayServer) -> None:
    from trace_recorder.rerun.serving import base_urls  # noqa: PLC0415 - as above

    recording = server.replay.recording
    typer.echo(f"{pluralize(len(recording.exchanges), 'call')} of {recording.path.name} at {server.url}, until Ctrl-C")
    for name, url in base_urls(recording, server.url).items():
        typer.echo(f"{name}={url}")
