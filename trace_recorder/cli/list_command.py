"""The command `list`: its options and its exit code. `list_runs.py` makes the rows that it prints."""

from __future__ import annotations

from dataclasses import asdict

import typer

from trace_recorder.catalog.rows import row_json
from trace_recorder.catalog.selection import Selection
from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, no_runs_message, paths_or_default
from trace_recorder.cli.list_runs import Listing, listing
from trace_recorder.cli.list_table import run_table
from trace_recorder.cli.output import console, fail, print_json, print_lines, print_table, table_width, warn
from trace_recorder.cli.read_files import is_directory
from trace_recorder.cli.selecting import (
    ErrorsOption,
    Failed,
    Limit,
    Meta,
    ModelOption,
    Reverse,
    RewardOption,
    Since,
    SortBy,
    Statuses,
    TaskOption,
    ToolOption,
    Until,
    Where,
    selection_of,
)


def list_(  # noqa: PLR0913, PLR0917 - one argument for each option
    runs: DefaultRuns = None,
    where: Where = None,
    statuses: Statuses = None,
    model: ModelOption = None,
    task: TaskOption = None,
    since: Since = None,
    until: Until = None,
    tool: ToolOption = None,
    reward: RewardOption = None,
    meta: Meta = None,
    failed: Failed = False,
    errors: ErrorsOption = False,
    sort: SortBy = None,
    reverse: Reverse = False,
    limit: Limit = None,
    as_json: AsJson = False,
    index: IndexPath = None,
) -> None:
    """List the runs in a directory.

    Several directories and files may be given. If one of these files cannot be read, it is reported, and the exit code
    is 1.
    """
    selection = selection_of(
        where,
        *(model, task, since, until, tool, reward),
        statuses=statuses,
        meta=meta,
        failed=failed,
        errors=errors,
        sort=sort,
        reverse=reverse,
        limit=limit,
    )
    paths = paths_or_default(runs)
    listed = listing(paths, selection, index=index)
    if not (listed.count or listed.others or selection.terms):
        fail(no_runs_message(paths))
    named_files = {str(path) for path in paths if not is_directory(path)}
    if as_json:
        print_json({"trajectories": map(row_json, listed.rows()), "others": [*map(asdict, listed.others)]})
    else:
        _print_list(listed, named_files, selection)
    refused = [other for other in listed.others if other.file in named_files]
    for other in refused:
        warn(other.reason)
    if refused:
        raise typer.Exit(1)


def _print_list(listed: Listing, named_files: set[str], selection: Selection) -> None:
    """Print the rows.

    Also print the files that are not runs, if they were found in directories. If the command line names such a file,
    `list_` reports the file.
    """
    out = console()
    rows = listed.flat_rows()
    if selection.sort in {None, "time"}:
        rows = listed.tree_rows()
    others = [f"  {other.reason}" for other in listed.others if other.file not in named_files]
    if listed.count:
        print_table(out, run_table(rows, table_width(out)))
    elif selection.terms:
        print_lines(out, ["No run matches."], "bold")
    if others:
        out.print()
        print_lines(out, ["Not shown:", *others], "yellow")
