"""The command `recover`: the document of a run that was broken off, rebuilt from its journal."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from trace_recorder.cli.arguments import Runs
from trace_recorder.cli.list_runs import no_runs_message
from trace_recorder.cli.output import console, fail, print_lines, warn
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
        for path in find_runs(paths):
            try:
                document = try_call(partial(rebuild_document, path), partial(_raise_unreadable, path))
            except UnreadableError as error:
                failed += 1
                warn(str(error))
                continue
            done += 1
            print_lines(console(), [f"{document}: rebuilt"])
    except UnreadableError as error:
        fail(str(error))
    if not done and not failed:
        fail(no_runs_message(paths))
    warn(f"{pluralize(done, 'document')} rebuilt" + (f", {failed} not" if failed else ""))
    if failed:
        raise typer.Exit(1)


def _raise_unreadable(path: Path, error: Exception) -> Path:
    raise UnreadableError(error_message(path, error, "rebuilt")) from error
