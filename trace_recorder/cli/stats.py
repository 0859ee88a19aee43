"""The command `stats`: what it takes, and how it exits. What it prints is made in `stats_tables.py`."""

from __future__ import annotations

import typer

from trace_recorder.cli.arguments import AsJson, Jobs, Runs
from trace_recorder.cli.count_run import count_run
from trace_recorder.cli.jobs import batch_for, in_order, jobs_for
from trace_recorder.cli.output import console, fail, print_json, print_lines, table_width, warn
from trace_recorder.cli.progress import Progress
from trace_recorder.cli.read_files import UnreadableError, find_runs
from trace_recorder.cli.stats_tables import lines
from trace_recorder.views.stats import Stats


def stats(paths: Runs, as_json: AsJson = False, jobs: Jobs = None) -> None:
    """Count over runs.

    Calls, tokens, cache, cost, tools, failures, retries and time, and all of that model by model.

    A run that cannot be read is reported and skipped; the exit code is then 1.
    """
    figures, failed = Stats(), 0
    try:
        runs = [*find_runs(paths)]
        with Progress(len(runs)) as progress:
            processes = jobs_for(runs, jobs)
            for one in progress.over(in_order(count_run, runs, processes, batch_for(runs, processes))):
                if isinstance(one, UnreadableError):
                    failed += 1
                    progress.hide()
                    warn(str(one))
                else:
                    figures.merge(one)
    except UnreadableError as error:
        fail(str(error))
    if as_json:
        print_json(figures.to_json() | {"unreadable": failed})
    else:
        out = console()
        print_lines(out, lines(figures.to_json(), table_width(out)))
    if failed:
        raise typer.Exit(1)
