"""The command `validate`: what it takes, and how it exits. What it prints is made in `validation_report.py`."""

from __future__ import annotations

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, paths_or_default
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName
from trace_recorder.cli.list_runs import runs_of
from trace_recorder.cli.output import console, print_json, print_lines
from trace_recorder.cli.progress import Progress


def validate_(
    files: DefaultRuns = None,
    as_json: AsJson = False,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Check that files are complete and consistent.

    Checks each record, each restored request and stream, and the document against the journal. Exits with 1 if there is
    an error.
    """
    from trace_recorder.cli import validation_report as checking  # noqa: PLC0415 - the other commands do without it

    does, runs = Engine(engine, address), runs_of(paths_or_default(files))
    with Progress(len(runs)) as progress:
        reports = [*progress.over(does.in_order(checking.report, runs))]
    if as_json:
        print_json([checking.as_json(report) for report in reports])
    else:
        out = console()
        for line, style in checking.lines(reports):
            print_lines(out, [line], style)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)
