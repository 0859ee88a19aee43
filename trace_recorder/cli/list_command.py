"""The command `list`: what it takes, and how it exits. What it prints is made in `list_runs.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, check_names, default_directory
from trace_recorder.cli.list_runs import Listing, listing, no_runs_message, table
from trace_recorder.cli.list_selection import SORTS, STATUSES, Selection
from trace_recorder.cli.list_tree import as_tree
from trace_recorder.cli.output import console, print_json, print_lines, table_width, warn
from trace_recorder.cli.read_files import is_directory

Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help=f"Only runs that are {', '.join(STATUSES)}; may be repeated."),
]
Model = Annotated[str | None, typer.Option("--model", metavar="TEXT", help="Only runs with this in provider/model.")]
Task = Annotated[str | None, typer.Option("--task", metavar="TEXT", help="Only runs with this in their task.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="Only runs that began then or later, such as 2025-06-12T22:05."),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed or did not succeed.")]
Errors = Annotated[bool, typer.Option("--errors", help="Only runs with an error, a failed call or a failed tool.")]
SortBy = Annotated[str, typer.Option("--sort", metavar="BY", help=f"One of {', '.join(SORTS)}; the smallest first.")]
Reverse = Annotated[bool, typer.Option("--reverse", help="The newest or the largest first.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N of that order.")]


def list_(  # noqa: PLR0913, PLR0917 - one argument an option
    runs: DefaultRuns = None,
    statuses: Statuses = None,
    model: Model = None,
    task: Task = None,
    since: Since = None,
    failed: Failed = False,
    errors: Errors = False,
    sort: SortBy = "time",
    reverse: Reverse = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List the runs in a directory.

    Several directories and files may be given; a file that cannot be read is then reported, and the exit code is 1.
    """
    check_names(statuses or (), STATUSES, "--status")
    begin = _time(since)
    check_names([sort], SORTS, "--sort")
    select = Selection(statuses or (), model, task, begin, failed, errors, sort, reverse, limit)
    paths = runs or [default_directory()]
    found = listing(paths, select=select)
    named = {str(path) for path in paths if not is_directory(path)}
    if as_json:
        print_json(asdict(found))
    else:
        _print_list(found, paths, named, select)
    refused = [other for other in found.others if other.file in named]
    for other in refused:
        warn(other.reason)
    if refused:
        raise typer.Exit(1)


def _time(text: str | None) -> datetime | None:
    """Read a date or a time, in the local time zone if it names none."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        message = f"{text!r} is no date, such as 2025-06-12, or time, such as 2025-06-12T22:05"
        raise typer.BadParameter(message, param_hint="--since") from None


def _print_list(found: Listing, paths: Sequence[Path], named: set[str], select: Selection) -> None:
    """Print the rows, and the other files of directories. `list_` reports those that were named itself."""
    out = console()
    runs = as_tree(found.trajectories) if select.sort == "time" else found.trajectories
    titles, *rows = table(runs, table_width(out))
    others = [f"  {other.reason}" for other in found.others if other.file not in named]
    directories = [path for path in paths if str(path) not in named]
    nothing = [no_runs_message(directories).capitalize() + "."] if directories else []
    nothing = ["No run matches."] if select.selects else nothing
    print_lines(out, [titles] if rows else nothing, "bold")
    print_lines(out, rows)
    if others:
        out.print()
        print_lines(out, ["Not shown:", *others], "yellow")
