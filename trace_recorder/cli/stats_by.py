"""The option `--by` of `stats`: prints groups of runs, and the difference of each group from the reference.

One grouping makes three tables: the groups, their differences, and their differences over the tasks that both did. Two
groupings make a table for each figure, with a row for each name in the first grouping. A cell has the median, and the
quartiles or the confidence interval in brackets. At most `MAX_SHOWN` names of each grouping are printed. JSON has all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from trace_recorder.cli.read_files import UnreadableError, process_or_error, read_run
from trace_recorder.cli.text_layout import pluralize, rounded_number, seconds
from trace_recorder.cli.text_tables import TextRow, cut_name, table_lines, wrapped_line
from trace_recorder.errors import QueryError
from trace_recorder.figures.groups import (
    FIGURES,
    RULES,
    FigureSpread,
    GroupComparison,
    GroupDifference,
    GroupedRuns,
    GroupKey,
    PairedSuccess,
    RunGroup,
    TaskPairs,
    groupings_in,
)
from trace_recorder.figures.intervals import Estimate
from trace_recorder.figures.run_measures import FigureName, RunMeasures, measures_of
from trace_recorder.values.messages import Payload

MAX_SHOWN = 20
"""At most this many names of each grouping are printed."""
_NAME_CHARACTERS = 40


def _checked(by: list[str] | None) -> list[str] | None:
    if by:
        try:
            groupings_in(by)
        except QueryError as error:
            raise typer.BadParameter(str(error)) from None
    return by


By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="GROUPING",
        callback=_checked,
        help="Compare groups of runs: by model, provider, task, agent, tool, server, day, status or meta:KEY. Given "
        "twice: a table.",
        show_default=False,
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAME",
        help="With --by: the group that others are compared with. Default: the one with the most runs.",
    ),
]


def group_report(
    measured: Iterable[RunMeasures], by: Sequence[str], against: str | None, most_names: int | None, width: int | None
) -> tuple[dict[str, Payload], Iterator[str]]:
    """Return the comparison of the groups of runs, and its lines."""
    groups = GroupedRuns(by)
    for measures in measured:
        groups.add(measures)
    comparison = groups.comparison(against, most_names=most_names)
    return comparison.to_json(), group_lines(comparison, width)


def measures_in(path: Path) -> RunMeasures | UnreadableError:
    """Return the measures of one run for `--by`, or why they cannot be read."""
    return process_or_error(path, partial(_measures, path), "counted")


def _measures(path: Path) -> RunMeasures:
    return measures_of(read_run(path))


def group_lines(comparison: GroupComparison, width: int | None = None) -> Iterator[str]:
    """Yield the tables of a comparison as lines of text. It has the first `MAX_SHOWN` names of each grouping."""
    if len(comparison.by) == 1:
        tables = _groups(comparison)
    else:
        tables = _crossed(comparison)
    for line in _heading(comparison):
        yield from wrapped_line(line, width)
    for table in tables:
        if table.caption:
            yield from ("", *wrapped_line(table.caption, width))
        yield from table_lines(table.rows, width, side_by_side=True)
    for by, names in zip(comparison.by, comparison.names, strict=True):
        if len(names) > MAX_SHOWN:
            yield from ("", f"{by}: {len(names) - MAX_SHOWN:,} more groups are in --json")


def _heading(comparison: GroupComparison) -> Iterator[str]:
    names = [*map(str, comparison.by)]
    yield f"{pluralize(comparison.runs, 'run')} by {' and '.join(names)}"
    for name, by in zip(names, comparison.by, strict=True):
        yield f"{name}: {RULES[by.kind]}"
    left_out = [(comparison.replays, "replay"), (comparison.running, "running run")]
    words = [pluralize(count, name) for count, name in left_out if count]
    if words:
        yield f"left out: {', '.join(words)}"
    if comparison.forks:
        yield f"{pluralize(comparison.forks, 'fork')}: their figures leave out the calls of their parents"
    if comparison.prices is not None:
        yield f"~: a cost with estimates by {comparison.prices}"
    if "list_tokens" in _figures(comparison):
        yield "tool list: the tokens that the tools of MCP servers take of each prompt, estimated by their characters"
    if len(names) == 1:
        yield "cells: successes with a 95 % interval; medians with quartiles, of the runs that have the figure"
    else:
        yield "cells: successes; medians of the runs that have the figure. --json has quartiles, intervals, differences"


class _Table(NamedTuple):
    """A table to print: its rows, the titles first, and the sentence above it."""

    rows: list[TextRow]
    caption: str = ""


# ── one grouping ─────────────────────────────────────────────────────────────────────────────────────────────────────

_TITLES: Mapping[FigureName, str] = {
    "cost": "cost USD",
    "tokens": "tokens",
    "seconds": "time",
    "calls": "calls",
    "tool_calls": "tool calls",
    "tool_errors": "tool errors",
    "list_tokens": "tool list",
}


def _figures(comparison: GroupComparison) -> list[FigureName]:
    """Return the figures to print. The tokens of lists of tools are left out if no run used an MCP server."""
    is_known = any(group.figures["list_tokens"] is not None for group in comparison.groups)
    return [name for name in FIGURES if is_known or name != "list_tokens"]


def _groups(comparison: GroupComparison) -> Iterator[_Table]:
    by, names = str(comparison.by[0]), _figures(comparison)
    figures = [_TITLES[name] for name in names]
    rows = [
        (_shown(group.key[0]), f"{group.runs:,}", _success(group), *_spreads(group, names))
        for group in comparison.groups
    ]
    yield _Table([(by, "runs", "success", *figures), *rows])
    reference, differences = _shown(comparison.against), comparison.differences
    if differences:
        yield _Table(
            [(by, "success", *figures), *map(partial(_difference, names=names), differences)],
            f"less {reference}: differences of shares (in points) and of medians, with 95 % intervals",
        )
    paired = [(difference.key, difference.pairs) for difference in differences if difference.pairs is not None]
    if paired:
        yield _Table(
            [(by, "tasks", "success", *figures), *(_paired(key, pairs, names) for key, pairs in paired)],
            f"less {reference}, over the tasks that both did: medians of the differences in each task",
        )


def _shown(name: str | None) -> str:
    if name is None:
        return "(none)"
    return cut_name(name, _NAME_CHARACTERS)


def _success(group: RunGroup) -> str:
    if group.success is None:
        return "none judged"
    low, high = group.success.low or 0.0, group.success.high or 0.0
    return f"{group.succeeded} of {group.judged}, {group.success.value:.0%} ({low:.0%} to {high:.0%})"


def _spreads(group: RunGroup, names: Iterable[FigureName]) -> Iterator[str]:
    for name in names:
        spread = group.figures[name]
        if spread is None:
            yield "?"
            continue
        form = _FORMS[name]
        quartiles = f" ({form(spread.low_quartile)} to {form(spread.high_quartile)})"
        yield _median(group, name, spread, quartiles)


def _median(group: RunGroup, name: FigureName, spread: FigureSpread, quartiles: str = "") -> str:
    """Return a median. `~` marks a cost with estimates. The end says how many runs have the figure, if not all."""
    text = _FORMS[name](spread.median.value) + quartiles
    if name == "list_tokens" or (name == "cost" and group.estimated_costs):
        text = f"~{text}"
    if spread.runs < group.runs:
        text += f" of {spread.runs:,}"
    return text


def _difference(difference: GroupDifference, names: Iterable[FigureName]) -> TextRow:
    figures = (_change(difference.figures[name], _FORMS[name]) for name in names)
    return (_shown(difference.key[0]), _change(difference.success, _points), *figures)


def _paired(key: GroupKey, pairs: TaskPairs, names: Iterable[FigureName]) -> TextRow:
    cells = []
    for name in names:
        figure = pairs.figures[name]
        if figure is None:
            cells.append("?")
        else:
            cells.append(_change(figure.difference, _FORMS[name]))
    return (_shown(key[0]), f"{pairs.tasks:,}", _paired_success(pairs.success), *cells)


def _paired_success(success: PairedSuccess | None) -> str:
    if success is None:
        return "?"
    counts = f"{success.better} better, {success.worse} worse, {success.equal} equal"
    return f"{counts}: {_change(success.difference, _points)}"


def _change(estimate: Estimate | None, form: Callable[[float], str]) -> str:
    """Return a difference with its interval, all with signs."""
    if estimate is None:
        return "?"
    text = _signed(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return f"{text} (no interval)"
    return f"{text} ({_signed(estimate.low, form)} to {_signed(estimate.high, form)})"


def _signed(value: float, form: Callable[[float], str]) -> str:
    text = form(abs(value))
    if text == form(0.0):
        return text
    if value < 0:
        return f"-{text}"
    return f"+{text}"


def _dollars(value: float) -> str:
    return f"{value:.6f}"


def _points(value: float) -> str:
    return f"{value * 100:.0f}"


def _count(value: float) -> str:
    if value.is_integer() or value >= 100:
        return rounded_number(round(value))
    return rounded_number(round(value, 1))


_FORMS: Mapping[FigureName, Callable[[float], str]] = {
    "cost": _dollars,
    "tokens": _count,
    "seconds": seconds,
    "calls": _count,
    "tool_calls": _count,
    "tool_errors": _count,
    "list_tokens": _count,
}


# ── two groupings ────────────────────────────────────────────────────────────────────────────────────────────────────


def _crossed(comparison: GroupComparison) -> Iterator[_Table]:
    """Yield a table for each figure. Rows and columns are in the order of the groups."""
    groups = {group.key: group for group in comparison.groups}
    rows, columns = (names[:MAX_SHOWN] for names in comparison.names)

    def table(title: str, cell: Callable[[RunGroup], str]) -> _Table:
        lines: list[TextRow] = [(title, *(_shown(column) for column in columns))]
        for row in rows:
            line = [_shown(row)]
            for column in columns:
                group = groups.get((row, column))
                line.append("" if group is None else cell(group))
            lines.append(line)
        return _Table(lines)

    yield table("success", _short_success)
    for name in FIGURES:
        if any(group.figures[name] is not None for group in comparison.groups):
            yield table(_TITLES[name], partial(_short_median, name=name))


def _short_success(group: RunGroup) -> str:
    if group.success is None:
        return f"none of {group.runs} judged"
    return f"{group.succeeded} of {group.judged}, {group.success.value:.0%}"


def _short_median(group: RunGroup, name: FigureName) -> str:
    spread = group.figures[name]
    if spread is None:
        return "?"
    return _median(group, name, spread)
