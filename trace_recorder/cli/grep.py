"""The command `grep`: searches prompts, answers, and the arguments and results of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from trace_recorder.catalog.matching_lines import MatchingLine, matching_lines
from trace_recorder.catalog.planning import Planned
from trace_recorder.catalog.query import Term, condition_of, condition_of_texts
from trace_recorder.catalog.searched_values import PLACES, SearchPlace
from trace_recorder.cli.arguments import (
    AsJson,
    DefaultRuns,
    IndexPath,
    Jobs,
    check_names,
    completion_of,
    paths_or_default,
)
from trace_recorder.cli.output import RunLoop, print_json
from trace_recorder.cli.planned_runs import PlannedRuns, planned_runs, results_of_unread
from trace_recorder.cli.read_files import UnreadableError, process_or_error, read_run
from trace_recorder.cli.selecting import Limit, Reverse, SortBy, Where, select_runs, selection_of
from trace_recorder.cli.text_layout import in_one_line

Pattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="A regular expression in Python's syntax.", show_default=False)
]
IgnoreCase = Annotated[bool, typer.Option("-i", "--ignore-case", help="Ignore case.")]
Fixed = Annotated[bool, typer.Option("-F", "--fixed", help="Treat the pattern as plain text.")]
In = Annotated[
    list[str] | None,
    typer.Option("--in", metavar="WHERE", help=f"Only in: {', '.join(PLACES)}.", autocompletion=completion_of(PLACES)),
]
FilesOnly = Annotated[bool, typer.Option("-l", "--files", help="Print only the names of the files.")]


def grep(  # noqa: PLR0913, PLR0917 - one argument for each option
    pattern: Pattern,
    paths: DefaultRuns = None,
    ignore_case: IgnoreCase = False,
    fixed: Fixed = False,
    places: In = None,
    where: Where = None,
    sort: SortBy = None,
    reverse: Reverse = False,
    limit: Limit = None,
    files_only: FilesOnly = False,
    as_json: AsJson = False,
    jobs: Jobs = None,
    index: IndexPath = None,
) -> None:
    """Search the prompts, answers and tools of runs.

    Each message is searched once, in the step in which it was new. Exits with 0 if anything matches, 1 if nothing
    matches, 2 if a run cannot be read.
    """
    check_names(sorted(places or ()), PLACES, "--in")
    expression = _expression(pattern, ignore_case=ignore_case, fixed=fixed)
    selection = selection_of(where, sort=sort, reverse=reverse, limit=limit)
    paths = paths_or_default(paths)
    searched: frozenset[SearchPlace] = frozenset(place for place in PLACES if place in (places or PLACES))
    is_plain = fixed or re.escape(pattern).replace("\\ ", " ") == pattern
    if is_plain and not ignore_case:
        condition = condition_of([Term("text", pattern)])  # SQLite itself does the search
    else:
        condition = condition_of_texts(lambda text: any(map(expression.search, text.split("\n"))), searched)
    selected = select_runs(paths, selection, index=index, jobs=jobs)
    with_text = {run.path for run in planned_runs(paths, condition, index).candidates}
    # every run that may match is read, even if an index knows that it matches, because the matching lines are printed
    runs = PlannedRuns([Planned(str(path)) for path in selected.paths if path in with_text])
    loop = RunLoop(len(runs.candidates))
    search = partial(matches_in_file, expression=expression, places=searched)
    matches_of_runs = loop.over(results_of_unread(runs, search, jobs))
    if as_json:
        matches = [match.to_dict() for matches_of_run in matches_of_runs for match in matches_of_run]
        print_json(matches)
        count = len(matches)
    else:
        count = _print(matches_of_runs, loop, files_only=files_only)
    if selected.unreadable or loop.failed:
        raise typer.Exit(2)
    if not count:
        raise typer.Exit(1)


def _print(matches_of_runs: Iterable[list[MatchingLine]], loop: RunLoop, *, files_only: bool) -> int:
    """Print the matches of each run as they are found, and return how many runs have matches."""
    count = 0
    for matches in filter(None, matches_of_runs):
        count += 1
        if files_only:
            loop.print([matches[0].file])
        else:
            loop.print(map(_line, matches))
    return count


def _expression(pattern: str, *, ignore_case: bool, fixed: bool) -> re.Pattern[str]:
    """Compile the pattern. Raises BadParameter if it is not a regular expression."""
    flags = re.NOFLAG
    if ignore_case:
        flags = re.IGNORECASE
    if fixed:
        pattern = re.escape(pattern)
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r}: {error}", param_hint="PATTERN") from None


def matches_in_file(
    path: Path, expression: re.Pattern[str], places: frozenset[SearchPlace]
) -> list[MatchingLine] | UnreadableError:
    """Return the matches in a run, or why it cannot be searched. A separate process may call this."""
    return process_or_error(path, lambda: [*matching_lines(read_run(path), str(path), expression, places)], "searched")


def _line(match: MatchingLine) -> Text:
    """Return a match as a line, in which the matching part is marked."""
    before = f"{match.file}: "
    if match.step is not None:
        before += f"step {match.step}: "
    before += f"{match.where}: {match.line[: match.start]}"
    marked = in_one_line(match.line[match.start : match.end])
    return Text.assemble(in_one_line(before), (marked, "bold red"), in_one_line(match.line[match.end :]))
