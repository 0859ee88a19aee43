"""The command `serve`: a local provider that answers programs in any language over HTTP, from a recorded run."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_recorder.cli.interrupts import until_stopped
from trace_recorder.cli.list_runs import newest_run
from trace_recorder.cli.output import fail
from trace_recorder.cli.replay import Ignore, Loose, MatchOption, Recorded, Speed, check_speed, refusing_paths, report
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.loopback import HOST
from trace_recorder.rerun.matching import results_in_any_order
from trace_recorder.rerun.replayer import Replay, report_unused
from trace_recorder.rerun.serving import ReplayServer, base_urls

Port = Annotated[
    int, typer.Option("--port", metavar="NUMBER", min=0, max=65535, help="The port on 127.0.0.1. Default: a free one.")
]


def serve(  # noqa: PLR0913, PLR0917 - one argument an option
    run: Recorded = None,
    port: Port = 0,
    speed: Speed = None,
    ignore: Ignore = None,
    match: MatchOption = None,
    loose: Loose = False,
) -> None:
    """Answer LLM calls over HTTP on 127.0.0.1, from a run.

    The command prints the environment variables that direct SDKs to this server. Any key is accepted. Each recorded
    call answers one request. A request that equals no recorded request gets 404, with the differences. The server ends
    at Ctrl-C or SIGTERM. Exits with 1 if a request was not recorded, or a recorded call was not requested.
    """
    check_speed(speed)
    with refusing_paths():
        replay = Replay(
            newest_run(run), speed=speed, ignore=ignore or (), match=results_in_any_order if match else None
        )
    try:
        server = ReplayServer(replay, port, lambda message: report([message], None))
    except OSError as error:
        fail(f"port {port} of {HOST} cannot be used: {error.strerror}")
    with server, until_stopped():  # a signal may come as soon as the addresses are printed
        _print_addresses(server)
        server.serve_forever(poll_interval=0.1)
    unused = replay.unused
    report([], report_unused(replay.recording.path.name, unused) if unused else None)
    raise typer.Exit(1 if (replay.mismatch or unused) and not loose else 0)


def _print_addresses(server: ReplayServer) -> None:
    recording = server.replay.recording
    typer.echo(f"{pluralize(len(recording.exchanges), 'call')} of {recording.path.name} at {server.url}, until Ctrl-C")
    for name, url in base_urls(recording, server.url).items():
        typer.echo(f"{name}={url}")
