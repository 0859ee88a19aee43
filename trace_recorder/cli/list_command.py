"""The command `list`: what it takes, and how it exits. What it prints is made in `list_runs.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, default_directory
from trace_recorder.cli.list_runs import Listing, listing, no_runs_message, table
from trace_recorder.cli.output import console, fail, print_json, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, is_directory


def list_(runs: DefaultRuns = None, as_json: AsJson = False) -> None:
    """List the runs in a directory.

    Several directories and files may be given; a file that cannot be read is then reported, and the exit code is 1.
    """
    paths = runs or [default_directory()]
    try:
        found = listing(paths)
    except UnreadableError as error:
        fail(str(error))
    named = {str(path) for path in paths if not is_directory(path)}
    if as_json:
        print_json(asdict(found))
    else:
        _print_list(found, paths, named)
    for other in found.others:
        if other.file in named:
            warn(other.reason)
    if any(other.file in named for other in found.others):
        raise typer.Exit(1)


def _print_list(found: Listing, paths: Sequence[Path], named: set[str]) -> None:
    """Print the rows, and the other files of directories. `list_` reports those that were named itself."""
    out = console()
    width = out.width if out.is_terminal or "COLUMNS" in os.environ else None
    titles, *rows = table(found.trajectories, width)
    others = [f"  {other.reason}" for other in found.others if other.file not in named]
    directories = [path for path in paths if str(path) not in named]
    nothing = [no_runs_message(directories).capitalize() + "."] if directories else []
    print_lines(out, [titles] if rows else nothing, "bold")
    print_lines(out, rows)
    if others:
        out.print()
        print_lines(out, ["Not shown:", *others], "yellow")
