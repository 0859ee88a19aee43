"""The commands `find`, which prints the runs that match a query, and `index`, which makes an index for searches."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trace_recorder.catalog.query import Term, condition_of, parse_query
from trace_recorder.catalog.rows import Row, row_of_json, row_of_run
from trace_recorder.cli.arguments import (
    DEFAULT,
    AsJson,
    DefaultRuns,
    IndexPath,
    Jobs,
    no_runs_message,
    paths_or_default,
)
from trace_recorder.cli.engines import in_order, jobs_for
from trace_recorder.cli.list_table import as_flat_list, run_table
from trace_recorder.cli.output import Progress, RunLoop, console, fail, print_json, print_lines, table_width, warn
from trace_recorder.cli.planned_runs import naming_in, planned_runs, results
from trace_recorder.cli.read_files import UnreadableError, failure_message, is_directory, process_or_error
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.storage.run_files import runs_in_directory

if TYPE_CHECKING:
    from trace_recorder.catalog.index import IndexTask, Update
    from trace_recorder.catalog.matching import Matcher
    from trace_recorder.values.trajectory import Trajectory

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="Such as 'status:failed tool:bash>10 since:7d \"exit code 1\"'.")
]
PathsOnly = Annotated[bool, typer.Option("--paths", help="Print only the paths.")]


def find(  # noqa: PLR0913, PLR0917 - one argument for each option
    query: Query,
    paths: DefaultRuns = None,
    paths_only: PathsOnly = False,
    as_json: AsJson = False,
    index: IndexPath = None,
    jobs: Jobs = None,
) -> None:
    """Search runs by their facts and their texts.

    docs/many-runs.md describes the query language. A query that begins with - must follow --. Runs that are not in the
    index, or have changed since they were indexed, are read. Exits with 0 if a run matches, 1 if no run does, 2 if a
    run cannot be read.
    """
    terms = parse_query(query)
    paths = paths_or_default(paths)
    planned = planned_runs(paths, condition_of(terms), index, ["row"])
    if not planned.count:
        fail(no_runs_message(paths))
    loop, name_of = RunLoop(len(planned.candidates)), naming_in(paths)
    work = partial(rows_in_file, terms=terms)
    rows_of_files = loop.over(results(planned, work, lambda run: [row_of_json(run.kept["row"], "", run.path)], jobs))
    rows = (replace(row, file=name_of(row.path)) for rows_of_file in rows_of_files for row in rows_of_file)
    count = _print(rows, loop, paths_only=paths_only, as_json=as_json)
    unread = len(planned.unread)
    if 0 < unread < planned.count:
        warn(f"read {pluralize(unread, 'run')} of {planned.count}: they are new, or changed after they were indexed")
    if loop.failed:
        raise typer.Exit(2)
    if not count:
        raise typer.Exit(1)


def rows_in_file(path: Path, terms: tuple[Term, ...]) -> list[Row] | UnreadableError:
    """Return the rows of the matching runs in a file, or why the file cannot be read.

    A separate process may call this.
    """
    return process_or_error(path, partial(_matching_rows, path, terms), "searched")


def _matching_rows(path: Path, terms: tuple[Term, ...]) -> list[Row]:
    """Return the rows of the matching runs in a file that no index knows. Raises the exceptions of `load`."""
    from trace_recorder.formats.any_file import load_each  # noqa: PLC0415
    from trace_recorder.tables.remote_files import load_remote, url_of  # noqa: PLC0415

    matches = _matcher(terms)
    url = url_of(path)
    runs: Iterable[Trajectory]
    if url is None:
        runs = load_each(path)
    else:
        runs = [load_remote(path, url)]
    return [row_of_run(run, path) for run in runs if matches(run)]


@lru_cache(maxsize=1)
def _matcher(terms: tuple[Term, ...]) -> Matcher:
    from trace_recorder.catalog.matching import Matcher  # noqa: PLC0415

    return Matcher(terms)


def _print(rows: Iterator[Row], loop: RunLoop, *, paths_only: bool, as_json: bool) -> int:
    """Print the runs, and return their number.

    Paths are printed as they are found. Rows are printed in the order of the start times.
    """
    if paths_only and not as_json:
        count, last = 0, None
        for row in rows:
            if row.path != last:
                loop.print([row.path])
            count, last = count + 1, row.path
        return count
    sorted_rows = sorted(rows, key=lambda row: (str(row.start_time or ""), row.file))
    if as_json and paths_only:
        print_json([row.path for row in sorted_rows])
    elif as_json:
        print_json([asdict(row) for row in sorted_rows])
    elif sorted_rows:
        out = console()
        print_lines(out, run_table(as_flat_list(sorted_rows), table_width(out)))
    return len(sorted_rows)


R = TypeVar("R")
_BATCH = 4
"""A process gets this many runs at once."""
Directory = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help=f"The directory. {DEFAULT}", show_default=False)
]


def index(directory: Directory = None, index: IndexPath = None, jobs: Jobs = None, as_json: AsJson = False) -> None:
    """Make the index of a directory of runs, or bring it up to date.

    The index has the runs in the directory and below it. Only runs that changed are read. `find`, `list`, `stats`,
    `grep` and the viewer use the index. Their answers are the same without an index. The index may be deleted at any
    time. It holds the texts of the runs, so protect it as you protect the runs.
    """
    from trace_recorder.catalog.index import open_index  # noqa: PLC0415 - `find` reads an index without this module

    [target] = paths_or_default([directory] if directory else None)
    if not is_directory(target):
        fail(f"{target} is not a directory: an index is made for a directory")

    def read_all(work: Callable[[IndexTask], R], tasks: Iterable[IndexTask]) -> Iterator[R]:
        with Progress(None) as progress:
            yield from progress.over(in_order(work, tasks, processes, _BATCH))

    try:
        processes = jobs_for([*runs_in_directory(target)], jobs)
        update = open_index(target, index).update(read_all)
    except OSError as error:
        why = failure_message(Path(error.filename or target), error, "indexed")
        if index is None and error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            why += ". --index FILE puts the index elsewhere"
        fail(why)
    if as_json:
        print_json({**asdict(update), "not_kept": {reason.value: count for reason, count in update.not_kept.items()}})
    else:
        print_lines(console(), [*_lines(update)])


def _lines(update: Update) -> list[str]:
    lines = [f"{pluralize(update.runs, 'run')} in the index: {update.read} read, {update.removed} removed"]
    if update.not_kept:
        counts = sorted((reason.value, count) for reason, count in update.not_kept.items())
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts)
        lines.append(f"not in the index, and therefore read each time: {reasons}")
    return lines
