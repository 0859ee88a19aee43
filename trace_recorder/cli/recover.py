"""The command `recover`: rebuilds the document of an interrupted run from its journal."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from trace_recorder.cli.arguments import DefaultRuns, Recursive, local_paths
from trace_recorder.cli.output import RunLoop, warn
from trace_recorder.cli.read_files import process_or_error
from trace_recorder.cli.selecting import select_runs
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.recording.amend import rebuild_document


def recover(
    paths: DefaultRuns = None,
    *,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also replace a .json that has facts which are missing from a damaged journal."),
    ] = False,
    recursive: Recursive = False,
) -> None:
    """Rebuild the .json of runs from their journals.

    After a crash the .json may be older than its .jsonl, or missing. A run that is still being written is refused. A
    run is also refused if its journal is damaged and its .json has more than the journal. A run that cannot be rebuilt
    is reported and skipped; the exit code is then 1.
    """
    runs = select_runs(local_paths(paths, "recover"), recursive=recursive).paths
    loop, rebuilt = RunLoop(len(runs)), 0
    results = (process_or_error(run, partial(rebuild_document, run, force=force), "rebuilt") for run in runs)
    for document in loop.over(results):
        rebuilt += 1
        loop.print([f"{document}: rebuilt"])
    summary = f"{pluralize(rebuilt, 'document')} rebuilt"
    if loop.failed:
        warn(f"{summary}, {loop.failed} not")
        raise typer.Exit(1)
    warn(summary)
