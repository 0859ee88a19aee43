"""The command `find`: the runs that match a query, with an index or without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.catalog.kept_runs import row_of_run
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.planning import Planned
from trace_recorder.catalog.query import Term, parse_query
from trace_recorder.catalog.rows import Row, row_of_json
from trace_recorder.cli.arguments import AsJson, DefaultRuns, IndexPath, Jobs, no_runs_message, paths_or_default
from trace_recorder.cli.each_run import EachRun
from trace_recorder.cli.jobs import batch_for, in_order, jobs_for
from trace_recorder.cli.list_table import table
from trace_recorder.cli.list_tree import as_list
from trace_recorder.cli.output import console, fail, print_json, print_lines, table_width, warn
from trace_recorder.cli.planned_runs import planned_runs
from trace_recorder.cli.read_files import UnreadableError, is_directory, process_or_error
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.imports.loader import load_each

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="Such as 'status:failed tool:bash>10 since:7d \"exit code 1\"'.")
]
PathsOnly = Annotated[bool, typer.Option("--paths", help="Print the paths alone.")]


def find(  # noqa: PLR0913, PLR0917 - one argument an option
    query: Query,
    paths: DefaultRuns = None,
    paths_only: PathsOnly = False,
    as_json: AsJson = False,
    index: IndexPath = None,
    jobs: Jobs = None,
) -> None:
    """Search runs by what they are and by what was said.

    docs/many-runs.md has the language. Runs that are not in an index as they are now are read. Exits with 0 if a run
    matches, 1 if no run does, 2 if a run cannot be read.
    """
    terms = parse_query(query)
    paths = paths_or_default(paths)
    planned = [*planned_runs(paths, terms, index)]
    if not planned:
        fail(no_runs_message(paths))
    unread = [one.path for one in planned if one.matches is None]
    each, processes = EachRun(len(unread)), jobs_for(unread, jobs)
    read = each.over(in_order(partial(_rows_in, terms=terms), unread, processes, batch_for(unread, processes)))
    root = paths[0] if len(paths) == 1 and is_directory(paths[0]) else None
    count = _print(_rows(planned, read, root), each, paths_only=paths_only, as_json=as_json)
    if len(unread) < len(planned):
        _say_what_was_read(len(unread), len(planned))
    if each.failed or not count:
        raise typer.Exit(2 if each.failed else 1)


def _say_what_was_read(unread: int, runs: int) -> None:
    if unread:
        warn(f"{pluralize(unread, 'run')} of {runs} not in the index as they are now: read")


def _rows_in(path: Path, terms: tuple[Term, ...]) -> tuple[Path, list[Row]] | UnreadableError:
    """Return the rows of the runs in a file that match, or why it cannot be read."""
    matches = _matcher(terms)
    return process_or_error(
        path, lambda: (path, [row_of_run(run, path) for run in load_each(path) if matches(run)]), "searched"
    )


@lru_cache(maxsize=1)
def _matcher(terms: tuple[Term, ...]) -> Matcher:
    return Matcher(terms)


def _rows(planned: Sequence[Planned], read: Iterator[tuple[Path, list[Row]]], root: Path | None) -> Iterator[Row]:
    """Yield the rows that match, in the order of the runs; `read` has the rows of those that were read."""
    waiting = next(read, None)
    for one in planned:
        rows: Iterable[Row] = ()
        if one.matches is None and waiting is not None and waiting[0] == one.path:
            rows, waiting = waiting[1], next(read, None)
        elif one.row is not None:
            rows = [row_of_json(one.row)]
        name = str(one.path if root is None else one.path.relative_to(root))
        yield from (replace(row, file=name, path=str(one.path)) for row in rows)


def _print(rows: Iterator[Row], each: EachRun, *, paths_only: bool, as_json: bool) -> int:
    """Print the runs: paths as they are found, rows in the order in which the runs began. Return how many there are."""
    if paths_only and not as_json:
        count, last = 0, None
        for row in rows:
            if row.path != last:
                each.print([row.path])
            count, last = count + 1, row.path
        return count
    found = sorted(rows, key=lambda row: (str(row.start_time or ""), row.file))
    if as_json:
        print_json([row.path for row in found] if paths_only else [asdict(row) for row in found])
    elif found:
        out = console()
        print_lines(out, table(as_list(found), table_width(out)))
    return len(found)
