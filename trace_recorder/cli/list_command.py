"""The command `list`: its options and its exit code. `list_runs.py` makes the rows that it prints."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice

import typer
from rich.text import Text

from trace_recorder.catalog.selection import Selection
from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, no_runs_message, paths_or_default
from trace_recorder.cli.list_runs import Listing, listing
from trace_recorder.cli.list_table import as_flat_list, as_tree, run_table
from trace_recorder.cli.output import console, fail, print_json, print_lines, table_width, warn
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

_LINES_AT_ONCE = 1000
"""This many lines are printed together.

Printing each line separately takes three times as long. All lines of 100,000 runs together would take 200 MB of memory.
"""


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
    listed = listing(paths, selection, with_costs=True, index=index)
    if not (listed.trajectories or listed.others or selection.terms):
        fail(no_runs_message(paths))
    named_files = {str(path) for path in paths if not is_directory(path)}
    if as_json:
        print_json(asdict(listed))
    else:
        _print_list(listed, named_files, selection)
    refused = [other for other in listed.others if other.file in named_files]
    for other in refused:
        warn(other.reason)
    if refused:
        raise typer.Exit(1)


def _print_list(runs: Listing, named_files: set[str], selection: Selection) -> None:
    """Print the rows.

    Also print the files that are not runs, if they were found in directories. If the command line names such a file,
    `list_` reports the file.
    """
    out = console()
    if selection.sort in {None, "time"}:
        rows = as_tree(runs.trajectories)
    else:
        rows = as_flat_list(runs.trajectories)
    others = [f"  {other.reason}" for other in runs.others if other.file not in named_files]
    if rows:
        lines = run_table(rows, table_width(out))
        while group := [*islice(lines, _LINES_AT_ONCE)]:
            out.print(Text("\n").join(group), soft_wrap=True)
    elif selection.terms:
        print_lines(out, ["No run matches."], "bold")
    if others:
        out.print()
        print_lines(out, ["Not shown:", *others], "yellow")
