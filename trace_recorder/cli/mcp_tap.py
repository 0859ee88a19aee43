"""The command `mcp-tap`: records what goes between a client and its MCP server."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import check_names, completion_of, default_directory
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.run import Command, InDirectory, exit_as, required, starting
from trace_recorder.mcp_tap.configurations import CLIENTS

Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The server's name in the client's configuration.")
]
Print = Annotated[
    str | None,
    typer.Option(
        "--print",
        metavar="CLIENT",
        help="Print the lines that put the tap before the servers of claude, codex or cursor, and end.",
        autocompletion=completion_of(CLIENTS),
    ),
]


def mcp_tap(command: Command = None, name: Name = None, client: Print = None, directory: InDirectory = None) -> None:
    """Run an MCP server over stdio, and record its messages.

    Write this command before the server's command in the configuration of the client. Each byte passes in both
    directions, and the command ends as the server ends. Under `trace-recorder proxy`, the messages are in the run of
    the program that the proxy records, joined to the model's calls. Otherwise they are in a run of their own.
    """
    if client is not None:
        _print_lines(client)
        return
    from trace_recorder.mcp_tap.messages import TappedMessages  # noqa: PLC0415 - not to print lines
    from trace_recorder.mcp_tap.relay import relay  # noqa: PLC0415

    command = required(command, "mcp-tap")
    messages = TappedMessages(directory or default_directory(), shlex.join(command), name)
    with starting("mcp-tap"):
        code = relay(command, os.environ, messages.observe)
    messages.end(code)
    exit_as(code)


def _print_lines(client: str) -> None:
    """Print the lines for each file of a client's configuration. The other members of a server stay as they are."""
    check_names([client], CLIENTS, "--print")
    servers_of, lines = CLIENTS[client]
    servers = [*servers_of(Path.home(), Path.cwd())]
    for server in servers:
        if not server.command:
            warn(f"{server.name} in {server.file} is reached by HTTP: trace-recorder proxy --mcp {server.name}=URL")
        elif server.is_tapped:
            warn(f"{server.name} in {server.file} has the tap already")
    stdio = [server for server in servers if server.command and not server.is_tapped]
    if not stdio:
        fail(f"there is no server without the tap in the configuration of {client}")
    for file in dict.fromkeys(server.file for server in stdio):
        typer.echo(f"# in {file}, in place of these members")
        for line in lines([server for server in stdio if server.file == file]):
            typer.echo(line)
