"""The command `recover`: the document of a run that was broken off, rebuilt from its journal."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from trace_recorder.cli.arguments import Runs
from trace_recorder.cli.list_runs import no_runs_message
from trace_recorder.cli.output import console, fail, print_lines, warn
from trace_recorder.cli.progress import Progress
from trace_recorder.cli.read_files import UnreadableError, error_message, find_runs
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.guard import try_call
from trace_recorder.recording.amend import rebuild_document


def recover(paths: Runs) -> None:
    """Rebuild the .json of runs from their journals.

    After a crash the .json may be older than its .jsonl, or missing. A run that is still being written is refused. What
    cannot be rebuilt is reported and skipped; the exit code is then 1.
    """
    failed, done = 0, 0
    try:
        runs = [*find_runs(paths)]
    except UnreadableError as error:
        fail(str(error))
    with Progress(len(runs)) as progress:
        for rebuilt in progress.over(map(_rebuild, runs)):
            progress.hide()
            if isinstance(rebuilt, UnreadableError):
                failed += 1
                warn(str(rebuilt))
            else:
                done += 1
                print_lines(console(), [f"{rebuilt}: rebuilt"])
    if not done and not failed:
        fail(no_runs_message(paths))
    warn(f"{pluralize(done, 'document')} rebuilt" + (f", {failed} not" if failed else ""))
    if failed:
        raise typer.Exit(1)


def _rebuild(path: Path) -> Path | UnreadableError:
    """Return the document that was written, or why none was."""
    return try_call(partial(rebuild_document, path), partial(_describe, path))


def _describe(path: Path, error: Exception) -> Path | UnreadableError:
    return UnreadableError(error_message(path, error, "rebuilt"))
