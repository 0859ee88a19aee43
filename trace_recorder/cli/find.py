"""The command `find`: the runs that match a query, with an index or without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trace_recorder.catalog.query import Term, condition_of, parse_query
from trace_recorder.catalog.rows import Row, row_of_json
from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, Jobs, no_runs_message, paths_or_default
from trace_recorder.cli.list_table import as_list, table
from trace_recorder.cli.output import RunLoop, console, fail, print_json, print_lines, table_width, warn
from trace_recorder.cli.planned_runs import naming_in, planned_runs, results
from trace_recorder.cli.read_files import UnreadableError, process_or_error
from trace_recorder.cli.text_layout import pluralize

if TYPE_CHECKING:
    from trace_recorder.catalog.matching import Matcher

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="Such as 'status:failed tool:bash>10 since:7d \"exit code 1\"'.")
]
PathsOnly = Annotated[bool, typer.Option("--paths", help="Print only the paths.")]


def find(  # noqa: PLR0913, PLR0917 - one argument an option
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
    planned = planned_runs(paths, condition_of(terms), index)
    if not planned.count:
        fail(no_runs_message(paths))
    loop, name_of = RunLoop(len(planned.candidates)), naming_in(paths)
    work = partial(_rows_in, terms=terms)
    rows_of_files = loop.over(results(planned, work, lambda run: [row_of_json(run.kept, "", run.path)], jobs))
    rows = (replace(row, file=name_of(row.path)) for rows_of_file in rows_of_files for row in rows_of_file)
    count = _print(rows, loop, paths_only=paths_only, as_json=as_json)
    unread = len(planned.unread)
    if 0 < unread < planned.count:
        warn(f"read {pluralize(unread, 'run')} of {planned.count}: they are new, or changed after they were indexed")
    if loop.failed or not count:
        raise typer.Exit(2 if loop.failed else 1)


def _rows_in(path: Path, terms: tuple[Term, ...]) -> list[Row] | UnreadableError:
    """Return the rows of the matching runs in a file, or why the file cannot be read."""
    return process_or_error(path, partial(_matching_rows, path, terms), "searched")


def _matching_rows(path: Path, terms: tuple[Term, ...]) -> list[Row]:
    """Return the rows of the matching runs in a file that no index knows. Raises the exceptions of `load`."""
    from trace_recorder.catalog.index import row_of_run  # noqa: PLC0415
    from trace_recorder.imports.loader import load_each  # noqa: PLC0415
    from trace_recorder.tables.remote_files import load_remote, url_of  # noqa: PLC0415

    matches = _matcher(terms)
    url = url_of(path)
    runs = load_each(path) if url is None else [load_remote(path, url)]
    return [row_of_run(run, path) for run in runs if matches(run)]


@lru_cache(maxsize=1)
def _matcher(terms: tuple[Term, ...]) -> Matcher:
    from trace_recorder.catalog.matching import Matcher  # noqa: PLC0415

    return Matcher(terms)


def _print(rows: Iterator[Row], loop: RunLoop, *, paths_only: bool, as_json: bool) -> int:
    """Print the runs, and return their number.

    Paths are printed as they are found, rows in the order of the start times.
    """
    if paths_only and not as_json:
        count, last = 0, None
        for row in rows:
            if row.path != last:
                loop.print([row.path])
            count, last = count + 1, row.path
        return count
    in_order = sorted(rows, key=lambda row: (str(row.start_time or ""), row.file))
    if as_json:
        print_json([row.path for row in in_order] if paths_only else [asdict(row) for row in in_order])
    elif in_order:
        out = console()
        print_lines(out, table(as_list(in_order), table_width(out)))
    return len(in_order)
