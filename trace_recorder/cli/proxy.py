"""The command `proxy`: records the LLM calls of any program that sends them through an HTTP proxy on this machine."""

from __future__ import annotations

import math
import os
import shlex
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated

import typer

from trace_recorder.attach.lifecycle import is_disabled
from trace_recorder.attach.subprocess.supervisor import run_process
from trace_recorder.capture.proxy_header import PROXY_VARIABLE, TOKEN_VARIABLE
from trace_recorder.cli.arguments import default_directory
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.run import (
    Command,
    InDirectory,
    Quiet,
    SessionOption,
    Task,
    exit_as,
    recorded_lines,
    report_lines,
    starting,
    until_stopped,
)
from trace_recorder.loopback import HOST, LOOPBACK_NAMES
from trace_recorder.proxy.programs.known import DirectedCommand, directed
from trace_recorder.proxy.programs.launch import Direction
from trace_recorder.proxy.sessions import Sessions
from trace_recorder.proxy.upstreams import Upstream, UpstreamError, named_address, upstreams
from trace_recorder.recording.process import SESSION_VARIABLE, session_of_environment
from trace_recorder.storage.paths import DIRECTORY_VARIABLE, absolute_path

STOP_SECONDS = 4.5
"""After Ctrl-C, documents are written for at most this long. Every run is complete in its journal before."""

_CODEX = ("codex",)
"""The program whose options are printed if the command runs no program. No variable directs it to the proxy."""

Port = Annotated[
    int, typer.Option("--port", metavar="NUMBER", min=0, max=65535, help="The port. Default: any free port.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address to listen on. Unless it is a loopback address, clients need a token.",
    ),
]
Upstreams = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="NAME=URL",
        help="Add a provider's address, or replace the address of that name. May be repeated.",
    ),
]
Tokens = Annotated[
    list[str] | None,
    typer.Option(
        "--tokens",
        metavar="NAME=SERVER",
        help="Ask the upstream NAME for token ids and log-probabilities. SERVER is vllm or sglang. May be repeated.",
    ),
]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp",
        metavar="NAME=URL",
        help="Record an MCP server over streamable HTTP. Its address for the client is /mcp/NAME. May be repeated.",
    ),
]
SessionHeader = Annotated[
    str | None,
    typer.Option("--session-header", metavar="NAME", help="The HTTP header that has the id of a session."),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--idle",
        metavar="SECONDS",
        min=1,
        help="End a run after this time without a request. Default: 3600, or no limit if a command is given.",
    ),
]
Join = Annotated[
    bool,
    typer.Option(
        "--join",
        help="Add the times and results of tools from the program's session file, if the program writes one.",
    ),
]


def proxy(  # noqa: PLR0913, PLR0917 - one argument for each option
    command: Command = None,
    port: Port = 0,
    host: Host = HOST,
    upstream: Upstreams = None,
    tokens: Tokens = None,
    mcp: Servers = None,
    session_header: SessionHeader = None,
    idle: Idle = None,
    join: Join = False,
    task: Task = None,
    session: SessionOption = None,
    directory: InDirectory = None,
    quiet: Quiet = False,
) -> None:
    """Record the LLM calls of any program through a proxy.

    The proxy runs on this machine, and forwards the calls to the provider. If a command is given, the proxy runs the
    command with environment variables that name the proxy's addresses, and ends when the command ends. Without a
    command, the proxy prints its addresses, and runs until Ctrl-C. Each session is recorded in its own file. For Python
    programs, `trace-recorder run` records more: steps, tools and sub-agents.
    """
    if any(find_spec(name) is None for name in ("httpx2", "uvicorn")):
        fail("proxy needs httpx2 and uvicorn: pip install 'trace-recorder[proxy]'")
    from trace_recorder.proxy.server import Proxy, serving  # noqa: PLC0415 - it needs the extra

    directed_command = directed(command or _CODEX, os.environ, Path.cwd())
    targets, servers = _upstreams(directed_command.direction, upstream or (), tokens or ()), _servers(mcp or ())
    listener = _listening(host, port)
    target_directory = directory or default_directory()
    sessions = Sessions(
        target_directory,
        command=command or (),
        task=task,
        session=session or session_of_environment(),
        header=session_header,
        idle_seconds=idle,
        join=join,
    )
    bound_port = listener.getsockname()[1]
    token = None
    if host not in LOOPBACK_NAMES:
        token = os.environ.get(TOKEN_VARIABLE) or token_urlsafe(24)
    application = Proxy(targets, sessions, port=bound_port, token=token, mcp_servers=servers)
    with serving(application, listener):
        url = f"http://{host}:{bound_port}"
        if ":" in host:  # an address of IPv6
            url = f"http://[{host}]:{bound_port}"
        code: int | None = None
        until = math.inf
        if command:
            variables = {**_environment(targets, url), DIRECTORY_VARIABLE: str(absolute_path(target_directory))}
            if session is not None:
                variables[SESSION_VARIABLE] = session
            if token:
                variables[TOKEN_VARIABLE] = token
            code = _run(directed_command, variables, url)
        else:
            _serve(directed_command, targets, servers, url, token)
            until = time.monotonic() + STOP_SECONDS
    sessions.end(code, until=until)
    if sessions.incomplete:
        message = "%d documents lack their newest records, which are in the journals: trace-recorder recover %s"
        warn(message % (sessions.incomplete, shlex.quote(str(target_directory))))
    if not quiet:
        report_lines(_summary(sessions))
    exit_as(code or 0)


def _upstreams(direction: Direction, options: Sequence[str], tokens: Sequence[str]) -> dict[str, Upstream]:
    try:
        return upstreams(direction.environment, options, direction.upstreams, tokens)
    except UpstreamError as error:
        raise typer.BadParameter(str(error)) from None


def _servers(options: Sequence[str]) -> dict[str, str]:
    try:
        return dict(map(named_address, options))
    except UpstreamError as error:
        raise typer.BadParameter(str(error)) from None


def _listening(host: str, port: int) -> socket.socket:
    from trace_recorder.proxy.server import listening  # noqa: PLC0415 - it needs the extra

    try:
        return listening(host, port)
    except OSError as error:
        fail(f"port {port} of {host} cannot be used: {error.strerror}")


def _run(command: DirectedCommand, variables: Mapping[str, str], url: str) -> int:
    """Run a program with what directs its calls to the proxy. Return the program's exit code."""
    report_lines(command.notices())
    if command.direction.not_recorded is not None:
        variables = {}
    with starting("proxy"):
        return run_process(command.to(url), {**os.environ, **variables})[1]


def _environment(targets: Mapping[str, Upstream], url: str) -> dict[str, str]:
    """Return the variables that direct programs to the proxy. Their own recorders tell the proxy what they record."""
    variables = {name: value for upstream in targets.values() for name, value in upstream.environment(url).items()}
    return {**variables, PROXY_VARIABLE: url}


def _serve(
    codex: DirectedCommand, targets: Mapping[str, Upstream], servers: Iterable[str], url: str, token: str | None
) -> None:
    """Print the addresses, and wait for Ctrl-C or SIGTERM, which may come as soon as the first line is printed."""
    with until_stopped():
        typer.echo(f"recording calls through {url}, until Ctrl-C")
        for name, value in _environment(targets, url).items():
            typer.echo(f"{name}={value}")
        typer.echo(shlex.join(codex.to(url)))
        for name in servers:
            typer.echo(f"MCP server {name}: {url}/mcp/{name}")
        if token is not None:
            typer.echo(f"X-Trace-Recorder-Token: {token}")
        while True:
            time.sleep(3600)


def _summary(sessions: Sessions) -> list[str]:
    documents = [*sessions.documents, *sessions.own_runs]
    if documents:
        return [*recorded_lines(documents)]
    if is_disabled(os.environ):
        return ["nothing was recorded: TRACE_RECORDER_DISABLED is set"]
    if sessions.has_failed:
        return ["nothing was recorded: the files could not be created; the messages above have the reason"]
    return ["nothing was recorded: no request to a model came through the proxy"]
