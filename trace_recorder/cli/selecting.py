"""Selects the runs that a command uses. All commands that take `--where` select by these functions.

`selection_of` makes a `Selection` from options. Each option that selects runs, such as `--model NAME`, is a spelling of
one term of the query language. `select_rows` returns the selected runs in order, and `listed_rows` their rows, for
commands that print them. `select_runs` returns the selected runs, for commands that read or change them. All ask the
index first, and read only runs that the index does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from trace_recorder.catalog.costs_in_files import run_costs_or_unknown
from trace_recorder.catalog.first_runs import first_runs
from trace_recorder.catalog.planning import Planned, with_parts
from trace_recorder.catalog.query import EVERY_RUN, STATUSES, Condition, Term, condition_of, parse_moment, parse_query
from trace_recorder.catalog.rows import (
    Row,
    current_summary,
    ended_summary,
    row_of,
    row_of_json,
    row_of_run,
    row_with_costs,
)
from trace_recorder.catalog.searched_values import Single
from trace_recorder.catalog.selection import ALL_RUNS, SORTS, OrderKey, Selection, Sort, order_key, values_of_row
from trace_recorder.cli.arguments import check_names, completion_of, no_runs_message
from trace_recorder.cli.output import Progress, fail, warn
from trace_recorder.cli.planned_runs import PlannedRuns, planned_runs, results_of_unread
from trace_recorder.cli.read_files import UnreadableError, find_runs, load_run, process_or_error
from trace_recorder.errors import QueryError
from trace_recorder.figures.cost import may_have_price
from trace_recorder.storage.addresses import Part
from trace_recorder.storage.local_copies import copied_ahead
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import Trajectory

if TYPE_CHECKING:
    from trace_recorder.catalog.matching import Matcher


# ── the options ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _text_term(field_name: str) -> Callable[[str], Term]:
    """Return a function from a text to the term with this field. Older versions of click refuse a `partial`."""

    def parse(text: str) -> Term:
        return Term(field_name, text)

    return parse


def _time_term(field_name: str) -> Callable[[str], Term]:
    """Return a function that parses a time, and returns the term with this field and the time."""

    def parse(text: str) -> Term:
        try:
            return Term(field_name, parse_moment(text).timestamp())
        except QueryError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def _status_term(text: str) -> Term:
    check_names([text], STATUSES, "--status")
    return Term("status", text)


def _metadata_term(text: str) -> Term:
    key, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE")
    return Term("meta", key, "=", text=value)


Where = Annotated[
    str | None,
    typer.Option("--where", metavar="QUERY", help="Only runs that match this query, as in `find QUERY`."),
]
SortBy = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="BY",
        help=f"One of {', '.join(SORTS)}; the smallest first. Default: time.",
        autocompletion=completion_of(SORTS),
    ),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="Reverse the order: the newest or the largest first.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="NUMBER", min=1, help="At most this many runs, from the beginning of the order."),
]
Statuses = Annotated[
    list[Term] | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        parser=_status_term,
        help=f"Only runs that are {', '.join(STATUSES)}. May be repeated.",
        autocompletion=completion_of(STATUSES),
    ),
]
ModelOption = Annotated[
    Term | None,
    typer.Option(
        "--model",
        metavar="NAME",
        parser=_text_term("model"),
        help="Only runs with this text in the provider/model of a call.",
    ),
]
TaskOption = Annotated[
    Term | None,
    typer.Option("--task", metavar="WORDS", parser=_text_term("task"), help="Only runs with this text in their task."),
]
Since = Annotated[
    Term | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=_time_term("since"),
        help="Only runs that began at this time or later: 2025-06-12T22:05, or 7d for 7 days ago.",
    ),
]
Until = Annotated[
    Term | None,
    typer.Option(
        "--until",
        metavar="TIME",
        parser=_time_term("until"),
        help="Only runs that began before this time: 2025-06-12, or 12h for 12 hours ago.",
    ),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed, or whose task did not succeed.")]
ErrorsOption = Annotated[
    bool, typer.Option("--errors", help="Only runs with an error, a failed call or a failed tool.")
]
ToolOption = Annotated[
    Term | None,
    typer.Option(
        "--tool", metavar="NAME", parser=_text_term("tool"), help="Only runs in which a model called this tool."
    ),
]
RewardOption = Annotated[
    Term | None,
    typer.Option("--reward", metavar="NAME", parser=_text_term("reward"), help="Only runs with this reward."),
]
Meta = Annotated[
    list[Term] | None,
    typer.Option(
        "--meta",
        metavar="KEY=VALUE",
        parser=_metadata_term,
        help="Only runs with this value in their metadata. May be repeated.",
    ),
]


def selection_of(  # noqa: PLR0913 - one argument for each option
    where: str | None = None,
    *terms: Term | None,
    failed: bool = False,
    errors: bool = False,
    statuses: Sequence[Term] | None = None,
    meta: Sequence[Term] | None = None,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Selection:
    """Return the selection that the options of a command state.

    `where` is the text of `--where`. `terms` are the values of the options that are terms; None is an option that was
    not given. Raises BadParameter for a wrong query, an unknown order, or two values of one key.
    """
    selected: list[Term] = []
    if where is not None:
        try:
            selected += parse_query(where)
        except QueryError as error:
            raise typer.BadParameter(str(error), param_hint="--where") from None
    selected += [term for term in terms if term is not None]
    if failed:
        selected.append(Term("is", "failed"))
    if errors:
        selected.append(Term("has", "error"))
    if statuses:
        selected.append(Term("status", ",".join(str(term.value) for term in statuses)))
    if meta:
        values = {term.value: term.text for term in meta}
        for term in meta:
            if values[term.value] != term.text:
                raise typer.BadParameter(f"no run has two values of {term.value}; give it one", param_hint="--meta")
        selected += meta
    if sort is not None:
        check_names([sort], SORTS, "--sort")
    return Selection(tuple(selected), cast(Sort | None, sort), reverse, limit)


# ── the selected runs ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SelectedRun:
    """A selected run. If the run was read, it has its row, and the `file` of the row is empty."""

    planned: Planned
    values: tuple[Single, ...]
    """The values that decide its place in the order, and further values that the caller of `select_rows` asked for."""
    row: Row | None = None
    has_costs: bool = True
    """Whether the row has the costs of all calls of the run. If False, no call was read."""

    @property
    def key(self) -> OrderKey:
        """The place of the run in the order."""
        return order_key(self.values, self.planned.file)

    @property
    def needs_calls_for_costs(self) -> bool:
        """Whether the calls of the run have to be read for the costs in its row."""
        return self.row is not None and not self.has_costs and may_have_price(self.row.status, self.row.llm_calls)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that cannot be read, or that is not a trajectory. The reason is a sentence that names the file."""

    path: Path
    reason: str


@dataclass(slots=True)
class SelectedRows:
    """The selected runs in order, and the files that could not be read."""

    runs: list[SelectedRun] = field(default_factory=list)
    unread_files: list[UnreadFile] = field(default_factory=list)
    count: int = 0
    """How many runs the paths have, including runs that do not match."""
    read: int = 0
    """How many runs were read, because no index knows them."""


LoadRuns = Callable[[Path], Iterable[Trajectory]]


def load_one(path: Path) -> list[Trajectory]:
    """Return the only run of a file. Raises the exceptions of `load`, also if the file has several runs."""
    return [load_run(path)]


def select_rows(  # noqa: PLR0913 - each has a default
    paths: Sequence[Path],
    selection: Selection,
    *,
    index: Path | None = None,
    values: Sequence[str] = (),
    jobs: int | None = None,
    recursive: bool = True,
    with_costs: bool = False,
    load_runs: LoadRuns = load_one,
) -> SelectedRows:
    """Return the selected runs at these paths. `listed_rows` returns their rows.

    A run that an index knows is not read. Of a run that has ended, only the beginning and the end of the document are
    read, unless a term is about calls or texts; then up to `jobs` processes read whole runs. If `with_costs` is True,
    the runs that are read as a whole have the costs of all calls in their rows. `values` are further values of each
    run. Raises UnreadableError if a directory cannot be read.
    """
    condition, names = condition_of(selection.terms), (*selection.key_values, *values)
    planned = planned_runs(paths, condition, index, names, recursive=recursive, selection=selection)
    read = partial(
        _read_rows, terms=selection.terms, with_costs=with_costs or selection.sort == "cost", load_runs=load_runs
    )
    if not condition.needs_calls:
        jobs = 1
    part = _part_read(condition, selection, with_costs=with_costs)
    selected = None
    if selection.limit is not None and selection.key_values == ("began",) and part == "document ends":
        first = first_runs(planned.candidates, selection)
        few = replace(planned, candidates=[*first.known, *first.others])
        part_of_few: Part = "document" if with_costs else part
        selected = _read_planned(few, read, selection, names, jobs, part_of_few)
        unread = {file.path for file in selected.unread_files}
        if any(run.path in unread for run in first.known):
            selected = None
    if selected is None:
        selected = _read_planned(planned, read, selection, names, jobs, part)
    selected.runs = selection.in_order(selected.runs, lambda run: run.key)
    selected.read = len(planned.unread)
    return selected


def _read_planned(  # noqa: PLR0913, PLR0917 - the parts of a selection
    planned: PlannedRuns,
    read: Callable[[Path], list[_RowAndCosts] | UnreadableError],
    selection: Selection,
    names: Sequence[str],
    jobs: int | None,
    part: Part,
) -> SelectedRows:
    """Read the candidates that no index knows. Return all candidates that match, each with the values `names`."""
    selected = SelectedRows(count=planned.count)
    read_rows = results_of_unread(planned, read, jobs, fetched=part)
    with Progress(len(planned.candidates)) as progress:
        for candidate in progress.over(planned.candidates):
            if candidate.known is not None:
                selected.runs.append(SelectedRun(candidate, candidate.known.values))
                continue
            rows = next(read_rows)
            if isinstance(rows, UnreadableError):
                selected.unread_files.append(UnreadFile(candidate.path, str(rows)))
                continue
            for row, has_costs in rows:
                if selection.sort == "cost" and not has_costs:
                    row, has_costs = _with_costs(row, candidate.path), True  # noqa: PLW2901 - the same row
                selected.runs.append(SelectedRun(candidate, values_of_row(row, names), row, has_costs))
    return selected


def listed_rows(
    runs: Sequence[SelectedRun], name_of: Callable[[str], str], load_runs: LoadRuns = load_one
) -> Iterator[Row | None]:
    """Yield the row of each run, with the costs of all calls, or None for a run whose files are gone.

    `name_of` returns the name of a run in the list, from its path. A row that an index has is read when the caller
    reaches it, and so are the calls of other runs, for their costs. A row that the index does not have any more is read
    from the run's files.
    """
    fetched = copied_ahead((run.planned.path for run in runs if run.needs_calls_for_costs), "document")
    for run, (planned, kept) in zip(runs, with_parts((run.planned for run in runs), ["row"]), strict=True):
        row, file = run.row, name_of(planned.file)
        if run.needs_calls_for_costs:
            next(fetched, None)
        if row is None and kept is not None:
            yield row_of_json(kept["row"], file, planned.file)
            continue
        if row is None:
            rows = _read_rows(planned.path, (), with_costs=False, load_runs=load_runs)
            if isinstance(rows, UnreadableError) or len(rows) != 1:
                yield None
                continue
            row = rows[0][0]
        if not (run.row and run.has_costs):
            row = _with_costs(row, planned.path)
        yield replace(row, file=file)


def _with_costs(row: Row, path: Path) -> Row:
    """Return the row with the costs of all calls. The calls are read if they may have a price."""
    return row_with_costs(row, partial(run_costs_or_unknown, path))


def _part_read(condition: Condition, selection: Selection, *, with_costs: bool) -> Part:
    """Return the part of each run at an address that the rows need. The costs of all runs need whole documents."""
    if condition.needs_calls:
        return "run"
    if selection.terms:
        return "ends"
    if selection.sort == "cost" or (with_costs and selection.limit is None):
        return "document"
    return "document ends"


def select_runs(  # noqa: PLR0913 - each has a default
    paths: Sequence[Path],
    selection: Selection = ALL_RUNS,
    *,
    index: Path | None = None,
    uses_index: bool = False,
    jobs: int | None = None,
    recursive: bool = True,
) -> PlannedRuns:
    """Return the selected runs at these paths, for a command that reads or changes them.

    If every run is selected, no run is read, and an index is asked only if the command `uses_index` for parts of runs.
    Report the files that could not be read; the command has to exit with its code for failures if there are
    `unreadable` ones. Exits with a sentence if there is no run, or if no run matches. Raises UnreadableError if a
    directory cannot be read.
    """
    if selection.is_every_run and uses_index:
        planned = planned_runs(paths, EVERY_RUN, index, recursive=recursive)
    elif selection.is_every_run:
        planned = planned_runs(paths, None, recursive=recursive)
    else:
        rows = select_rows(paths, selection, index=index, jobs=jobs, recursive=recursive)
        for file in rows.unread_files:
            warn(file.reason)
        planned = PlannedRuns([run.planned for run in rows.runs], rows.count, len(rows.unread_files))
    if not planned.count:
        reason = no_runs_message(paths)
        if not recursive and next(find_runs(paths), None) is not None:
            reason += ": add --recursive to include the runs in directories below"
        fail(reason)
    if not planned.candidates:
        fail("no run matches")
    return planned


_RowAndCosts = tuple[Row, bool]
"""The row of a run, and whether the row has the costs of all calls."""


def _read_rows(
    path: Path, terms: tuple[Term, ...], *, with_costs: bool, load_runs: LoadRuns
) -> list[_RowAndCosts] | UnreadableError:
    """Return the rows of the matching runs in a file, or why it cannot be read. A separate process may call this."""
    read = partial(_matching_rows, path, _matcher(terms), with_costs=with_costs, load_runs=load_runs)
    return process_or_error(path, read, "read")


def _matching_rows(path: Path, matches: Matcher | None, *, with_costs: bool, load_runs: LoadRuns) -> list[_RowAndCosts]:
    runs: Iterable[Trajectory]
    summary = None
    if matches is None:
        summary = ended_summary(path)
    elif not matches.needs_calls:
        summary = current_summary(path)
    if summary is not None:
        with_costs = False  # the summary has no calls
        runs = [summary]
    else:
        runs = load_runs(path)
    rows = []
    for run in runs:
        if matches is not None and not matches(run):
            continue
        if with_costs:
            rows.append((row_of_run(run, path), True))
        else:
            metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
            rows.append((row_of("", path, run, metrics), False))
    return rows


@lru_cache(maxsize=1)
def _matcher(terms: tuple[Term, ...]) -> Matcher | None:
    """Return the matcher of the terms, or None if there are no terms. Each process makes it once."""
    if not terms:
        return None
    from trace_recorder.catalog.matching import Matcher  # noqa: PLC0415 - a list of all runs does not need it

    return Matcher(terms)
