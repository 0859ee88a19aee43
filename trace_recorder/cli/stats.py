"""The command `stats`: what it takes, and how it exits. What it prints is made in `stats_tables.py`."""

from __future__ import annotations

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, Jobs, no_runs_message, paths_or_default
from trace_recorder.cli.count_run import count_run
from trace_recorder.cli.each_run import EachRun
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName
from trace_recorder.cli.output import console, fail, print_json, print_lines, table_width
from trace_recorder.cli.planned_runs import planned_runs, results
from trace_recorder.cli.stats_tables import lines
from trace_recorder.views.stats import Stats


def stats(
    paths: DefaultRuns = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    index: IndexPath = None,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Count calls, tokens, costs, tools and failures over runs.

    Also the cache, retries and time, all of it in total and by model. A run that cannot be read is reported and
    skipped; the exit code is then 1.
    """
    does = Engine(engine, address)
    paths = paths_or_default(paths)
    figures, runs = Stats(), planned_runs(paths, index=index, what="stats")
    if not runs.count:
        fail(no_runs_message(paths))
    each = EachRun(runs.count)
    for one in each.over(results(runs, count_run, lambda known: Stats.from_text(known.kept), jobs, does)):
        figures.merge(one)
    if as_json:
        print_json(figures.to_json() | {"unreadable": each.failed})
    elif each.failed < runs.count:
        out = console()
        print_lines(out, lines(figures.to_json(), table_width(out)))
    if each.failed:
        raise typer.Exit(1)
