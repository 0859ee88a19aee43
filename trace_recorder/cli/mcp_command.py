"""The command `mcp`: serves runs to agents, over the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DEFAULT, paths_or_default
from trace_recorder.cli.output import fail, warn
from trace_recorder.cli.read_files import failure_message, is_directory
from trace_recorder.storage.local_copies import local_directory

Directory = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", help=f"The directory of the runs. {DEFAULT}", show_default=False),
]


def mcp(directory: Directory = None) -> None:
    """Serve the runs of a directory to agents, as a read-only MCP server on stdin and stdout.

    docs/agents.md shows how coding agents start it. It reads nothing outside of the directory, and writes nothing.
    """
    [target] = paths_or_default([directory] if directory else None)
    if not is_directory(target):
        fail(f"{target} is not a directory: the server answers about the runs in a directory")
    try:
        from trace_recorder.mcp_server.stdio import serve_on_stdio  # noqa: PLC0415 - the extra may be missing
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        fail("the MCP server needs the package mcp: pip install 'trace-recorder[mcp]'")
    if sys.stdin.isatty():
        warn("an MCP client starts this command and talks to it on stdin: docs/agents.md. Ctrl-C ends it.")
    try:
        with local_directory(target) as directory_of_runs:
            serve_on_stdio(directory_of_runs)
    except OSError as error:
        fail(failure_message(target, error))
