"""The commands `find`, which prints the runs that match a query, and `index`, which makes an index for searches."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trace_recorder.catalog.query import parse_query
from trace_recorder.catalog.rows import Row, row_json
from trace_recorder.cli.arguments import (
    DEFAULT,
    AsJson,
    DefaultRuns,
    IndexPath,
    Jobs,
    local_paths,
    no_runs_message,
    paths_or_default,
)
from trace_recorder.cli.engines import DEFAULT_ENGINE, LOCAL, Address, Engine, EngineName, in_order, jobs_for
from trace_recorder.cli.list_table import flat_row, run_table
from trace_recorder.cli.output import Progress, console, fail, print_json, print_lines, print_table, table_width, warn
from trace_recorder.cli.planned_runs import naming_in
from trace_recorder.cli.read_files import failure_message, is_directory, load_runs
from trace_recorder.cli.selecting import Limit, Reverse, SortBy, listed_rows, select_rows, selection_of
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.storage.run_files import runs_in_directory

if TYPE_CHECKING:
    from trace_recorder.catalog.index import IndexTask, Update

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="Such as 'status:failed tool:bash>10 since:7d \"exit code 1\"'.")
]
PathsOnly = Annotated[bool, typer.Option("--paths", help="Print only the paths.")]


def find(  # noqa: PLR0913, PLR0917 - one argument for each option
    query: Query,
    paths: DefaultRuns = None,
    sort: SortBy = None,
    reverse: Reverse = False,
    limit: Limit = None,
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
    selection = selection_of(None, *parse_query(query), sort=sort, reverse=reverse, limit=limit)
    paths = paths_or_default(paths)
    selected = select_rows(paths, selection, index=index, jobs=jobs, with_costs=not paths_only, load_runs=load_runs)
    if not selected.count:
        fail(no_runs_message(paths))
    for file in selected.unread_files:
        warn(file.reason)
    if paths_only:
        _print_paths([run.planned.file for run in selected.runs], as_json=as_json)
    else:
        rows = (row for row in listed_rows(selected.runs, naming_in(paths), load_runs) if row is not None)
        if selected.runs or as_json:
            _print_rows(rows, as_json=as_json)
    if 0 < selected.read < selected.count:
        warn(
            f"read {pluralize(selected.read, 'run')} of {selected.count}: "
            "they are new, or changed after they were indexed"
        )
    if selected.unread_files:
        raise typer.Exit(2)
    if not selected.runs:
        raise typer.Exit(1)


def _print_paths(paths: Sequence[str], *, as_json: bool) -> None:
    paths = [*dict.fromkeys(paths)]  # a file may have several runs
    if as_json:
        print_json(paths)
    else:
        print_lines(console(), paths)


def _print_rows(rows: Iterator[Row], *, as_json: bool) -> None:
    if as_json:
        print_json(map(row_json, rows))
    else:
        out = console()
        print_table(out, run_table(map(flat_row, rows), table_width(out)))


R = TypeVar("R")
_BATCH = 4
"""A process gets this many runs at once."""
Directory = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help=f"The directory. {DEFAULT}", show_default=False)
]


def index(  # noqa: PLR0913, PLR0917 - one argument for each option
    directory: Directory = None,
    index: IndexPath = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Make the index of a directory of runs, or bring it up to date.

    The index has the runs in the directory and below it. Only runs that changed are read. All commands that select runs
    use the index, and so does the viewer. Their answers are the same without an index. The index may be deleted at any
    time. It holds the texts of the runs, so protect it as you protect the runs.
    """
    from trace_recorder.catalog.index import KeptRun, open_index  # noqa: PLC0415 - `find` does not import this module

    workers = Engine(engine, address)
    [target] = local_paths([directory] if directory else None, "index")
    if not is_directory(target):
        fail(f"{target} is not a directory: an index is made for a directory")

    def read_all(work: Callable[[IndexTask], R], tasks: Iterable[IndexTask]) -> Iterator[R]:
        with Progress(None) as progress:
            if workers == LOCAL:
                yield from progress.over(in_order(work, tasks, processes, _BATCH))
                return
            tasks = [*tasks]
            for task, kept in zip(tasks, progress.over(workers.in_order(work, tasks)), strict=True):
                if isinstance(kept, KeptRun) and kept.is_of_host:  # another machine cannot say whether it is recorded
                    yield work(task)
                else:
                    yield kept

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
