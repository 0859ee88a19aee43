"""The command `mcp-tap`: records what goes between a client and its MCP server."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer

from trace_recorder.cli.arguments import default_directory
from trace_recorder.cli.run import Command, InDirectory, exit_as, required, starting

Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The server's name in the client's configuration.")
]


def mcp_tap(command: Command = None, name: Name = None, directory: InDirectory = None) -> None:
    """Run an MCP server over stdio, and record its messages.

    Write this command before the server's command in the configuration of the client. Each byte passes in both
    directions, and the command ends as the server ends. Under `trace-recorder proxy`, the messages are in the run of
    the program that the proxy records, joined to the model's calls. Otherwise they are in a run of their own.
    """
    from trace_recorder.mcp_tap.messages import TappedMessages  # noqa: PLC0415 - a client starts many servers at once
    from trace_recorder.mcp_tap.relay import relay  # noqa: PLC0415

    command = required(command, "mcp-tap")
    messages = TappedMessages(directory or default_directory(), shlex.join(command), name)
    with starting("mcp-tap"):
        code = relay(command, os.environ, messages.observe)
    messages.end(code)
    exit_as(code)
