"""The command `index`: makes the index of a directory, and brings it up to date."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from trace_recorder.catalog.index import Task, Update, open_index
from trace_recorder.cli.arguments import DEFAULT, AsJson, IndexPath, Jobs, paths_or_default
from trace_recorder.cli.engines import in_order, jobs_for
from trace_recorder.cli.output import Progress, console, fail, print_json, print_lines
from trace_recorder.cli.read_files import error_message, is_directory
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.storage.run_files import runs_in_directory

R = TypeVar("R")
_BATCH = 4
"""How many runs a process gets at once."""
Directory = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help=f"The directory. {DEFAULT}", show_default=False)
]


def index(directory: Directory = None, index: IndexPath = None, jobs: Jobs = None, as_json: AsJson = False) -> None:
    """Make the index of a directory of runs, or bring it up to date.

    The index has the runs in the directory and below it. Only runs that changed are read. `find`, `list`, `stats`,
    `grep` and the viewer use the index, and answer as they do without one. The index may be deleted at any time. It
    holds the texts of the runs, so protect it as you protect the runs.
    """
    [target] = paths_or_default([directory] if directory else None)
    if not is_directory(target):
        fail(f"{target} is not a directory: an index is made for a directory")
    try:
        processes = jobs_for([*runs_in_directory(target)], jobs)
        update = open_index(target, index).update(partial(_read_all, jobs=processes))
    except OSError as error:
        is_elsewhere = index is not None or error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}
        hint = "" if is_elsewhere else ". --index FILE puts the index elsewhere"
        fail(error_message(Path(error.filename or target), error, "indexed") + hint)
    if as_json:
        print_json({**asdict(update), "not_kept": {reason.value: count for reason, count in update.not_kept.items()}})
    else:
        print_lines(console(), [*_lines(update)])


def _read_all(work: Callable[[Task], R], tasks: Iterable[Task], jobs: int) -> Iterator[R]:
    with Progress(None) as progress:
        yield from progress.over(in_order(work, tasks, jobs, _BATCH))


def _lines(update: Update) -> list[str]:
    lines = [f"{pluralize(update.runs, 'run')} in the index: {update.read} read, {update.removed} removed"]
    if update.not_kept:
        counts = sorted((reason.value, count) for reason, count in update.not_kept.items())
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts)
        lines.append(f"not in the index, and therefore read each time: {reasons}")
    return lines
