"""Compares groups of runs: success, cost, tokens, time, calls and tool errors, with 95 % confidence intervals.

`GroupedRuns` takes the measures of one run after another, and `comparison` makes a `GroupComparison`. `compare` does
both for loaded runs. `intervals.py` has the statistics.

A group is a set of runs, and its figures are those of whole runs. A run is in exactly one group, so two groups have no
run in common and can be compared. A run that called several models is in the group of that set of models. Only `tool`
and `server` put a run into several groups, which are therefore not compared. Replays repeat other runs, and running
runs have no final figures. Both are left out, and counted.

Each run takes about 70 bytes, and each group and each task its name.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from trace_recorder.errors import QueryError
from trace_recorder.figures.cost import table_name
from trace_recorder.figures.intervals import (
    CONFIDENCE,
    Estimate,
    difference_of,
    median_of,
    paired_difference_of,
    quantile_of,
    share_of,
)
from trace_recorder.figures.run_measures import FigureName, RunMeasures, measures_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

FIGURES: tuple[FigureName, ...] = get_args(FigureName)
GroupingKind = Literal["model", "provider", "task", "agent", "tool", "server", "day", "status", "meta"]
RULES: dict[GroupingKind, str] = {
    "model": "a run is in the group of all models that it called",
    "provider": "a run is in the group of all providers that it called",
    "task": "a run is in the group of its task",
    "agent": "a run is in the group of all named agents in it, and of its inferred sub-agents, which have the names "
    "of the tools that started them",
    "tool": "a run is in the group of each tool that it used, with the calls and errors of this tool; "
    "so groups have runs in common, and are not compared",
    "server": "a run is in the group of each MCP server that it called, or whose tools it offered to a model, with the "
    "calls, errors and time of this server's tools; so groups have runs in common, and are not compared",
    "day": "a run is in the group of the day (UTC) on which it began",
    "status": "a run is in the group of its status",
    "meta": "a run is in the group of its value in the metadata",
}
"""What each grouping does with a run."""
IN_COMMON: frozenset[GroupingKind] = frozenset({"tool", "server"})
"""The groupings whose groups have runs in common."""
MAX_GROUPINGS = 2
_MAX_NAMED = 5
GroupKey = tuple[str | None, ...]
"""The name of a group in each grouping. None stands for runs without a value."""


class Grouping(Struct, frozen=True):
    """A criterion by which runs are grouped. `key` is the key of the metadata if the kind is "meta"."""

    kind: GroupingKind
    key: str = ""

    def __str__(self) -> str:
        if self.kind == "meta":
            return f"meta:{self.key}"
        return self.kind

    def names_of(self, run: RunMeasures) -> Sequence[str | None]:
        """Return the names of the groups that have the run: one name, or a name for each tool or server."""
        if self.kind == "tool":
            return [*run.tools] or [None]
        if self.kind == "server":
            return [*run.servers] or [None]
        if self.kind == "meta":
            return [run.metadata.get(self.key)]
        names = {"model": run.models, "provider": run.providers, "agent": run.agents}.get(self.kind)
        if names is not None:
            return [" + ".join(names) or None]
        return [{"task": run.task, "day": run.day, "status": run.status}[self.kind]]


def grouping_in(text: str) -> Grouping:
    """Read a grouping, such as "model" or "meta:env". Raises QueryError."""
    kind, colon, key = text.partition(":")
    known = {name: name for name in RULES}.get(kind)  # type: ignore[call-overload]  # any text may be asked for
    if known is None or (kind == "meta") is not bool(colon and key):
        choices = ", ".join(RULES)
        raise QueryError(f"runs cannot be grouped by {text!r}; the groupings are {choices}:KEY")
    return Grouping(known, key)


def groupings_in(texts: Iterable[str]) -> tuple[Grouping, ...]:
    """Read one or two different groupings. Raises QueryError."""
    groupings = tuple(map(grouping_in, texts))
    if not 1 <= len(groupings) <= MAX_GROUPINGS or len({*groupings}) < len(groupings):
        raise QueryError("runs can be grouped by one grouping, or by two different ones")
    if all(by.kind in IN_COMMON for by in groupings) and len(groupings) > 1:
        raise QueryError("runs cannot be grouped by tool and server together: a group has the calls of one of the two")
    return groupings


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class FigureSpread(Struct, frozen=True):
    """One figure over the runs of a group. `runs` is how many of them have the figure; the others are left out.

    `low_quartile` and `high_quartile` are the quartiles (type 7, as in numpy).
    """

    runs: int
    total: float
    median: Estimate
    low_quartile: float
    high_quartile: float
    least: float
    most: float


class RunGroup(Struct, frozen=True):
    """A group of runs. `judged` is how many runs have a known success, and `success` is the share of successful ones.

    `estimated_costs` is how many runs have an estimate in their costs.
    """

    key: GroupKey
    runs: int
    judged: int
    succeeded: int
    success: Estimate | None
    estimated_costs: int
    figures: dict[FigureName, FigureSpread | None]


class PairedSuccess(Struct, frozen=True):
    """How many tasks have a higher, a lower and the same share of successes in a group as in the reference.

    `difference` is the share of better tasks less the share of worse tasks. If each group did each task once, it is the
    difference of the shares of successes.
    """

    tasks: int
    better: int
    worse: int
    equal: int
    difference: Estimate


class PairedFigure(Struct, frozen=True):
    """The median, over the tasks that both groups did, of the differences between their medians for the task."""

    tasks: int
    difference: Estimate


class TaskPairs(Struct, frozen=True):
    """The tasks that two groups both did. A part is None if no task has its values in both groups."""

    tasks: int
    success: PairedSuccess | None
    figures: dict[FigureName, PairedFigure | None]


class GroupDifference(Struct, frozen=True):
    """A group less its reference: shares of successes and medians, over all runs, and in pairs by task."""

    key: GroupKey
    reference: GroupKey
    success: Estimate | None
    figures: dict[FigureName, Estimate | None]
    pairs: TaskPairs | None


class GroupComparison(Struct, frozen=True):
    """Groups of runs, and the difference of each group from its reference.

    `names` has the names of each grouping, in order. References have the name `against` in the last grouping. `runs`
    counts the runs in groups; `replays` and `running` count those that were left out. `forks` counts the runs in groups
    that are forks; their figures leave out the calls that their parents made. `prices` names the tables of the
    estimates in the costs, or is None if there are no estimates.
    """

    by: tuple[Grouping, ...]
    names: tuple[tuple[str | None, ...], ...]
    runs: int
    replays: int
    running: int
    forks: int
    against: str | None
    prices: str | None
    groups: tuple[RunGroup, ...]
    differences: tuple[GroupDifference, ...]

    def to_json(self) -> dict[str, Payload]:
        """Return everything as JSON. A group's key becomes an object, such as `{"model": "openai/gpt-4o"}`."""
        names = [*map(str, self.by)]
        facts: dict[str, Payload] = _rounded(msgspec.to_builtins(self))
        for entry in (*facts["groups"], *facts["differences"]):
            for member in ("key", "reference"):
                if member in entry:
                    entry[member] = dict(zip(names, entry[member], strict=True))
        facts["by"] = [
            {"by": name, "rule": RULES[by.kind], "names": facts["names"][place]}
            for place, (name, by) in enumerate(zip(names, self.by, strict=True))
        ]
        del facts["names"]
        return {**facts, "confidence": CONFIDENCE}


def _rounded(value: Payload) -> Payload:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, list | tuple):
        return [_rounded(element) for element in value]
    if isinstance(value, dict):
        return {name: _rounded(member) for name, member in value.items()}
    return value


def compare(runs: Iterable[Trajectory], by: str | Sequence[str], *, against: str | None = None) -> GroupComparison:
    """Compare groups of runs: success, cost, tokens, time, calls and tool errors.

    `by` is "model", "provider", "task", "agent", "tool", "server", "day", "status" or "meta:KEY", or a sequence of two.
    Each group is compared with a reference: the group with the name `against` in the last grouping, or else the one
    with the most runs, or the newest day. Costs are in US dollars, times in seconds. Intervals are 95 % confidence
    intervals. A run whose success is unknown is not judged, and does not count as failed. One run is in memory at a
    time. Raises QueryError for another grouping, and for a reference that is not a group, and TypeError for a path.

    Examples:
        >>> from trace_recorder import load_all
        >>> comparison = compare(load_all("trajectories"), by="status")
        >>> [(group.key, group.runs) for group in comparison.groups]
        [(('completed',), 1)]
    """
    groups = GroupedRuns([by] if isinstance(by, str) else by)
    for run in runs:
        if not isinstance(run, Trajectory):
            kind = type(run).__name__  # type: ignore[unreachable]  # a caller may pass a path
            raise TypeError(f"compare() takes loaded runs, such as those of load_all(directory), and got {kind}")
        groups.add(measures_of(run))
    return groups.comparison(against)


# ── groups while they are filled ─────────────────────────────────────────────────────────────────────────────────────

_UNJUDGED = -1
Rows = Sequence[int]
"""The rows of a group in the columns."""


@dataclass(slots=True)
class _Columns:
    """The runs of all groups, in columns: a number for each run. An unknown figure is NaN, an unknown task 0."""

    tasks: array[int] = field(default_factory=lambda: array("q"))
    success: array[int] = field(default_factory=lambda: array("b"))
    estimated: array[int] = field(default_factory=lambda: array("b"))
    forks: array[int] = field(default_factory=lambda: array("b"))
    figures: dict[FigureName, array[float]] = field(default_factory=lambda: {name: array("d") for name in FIGURES})

    def by_task(self, rows: Rows) -> dict[int, list[int]]:
        """Return the rows of each task. Runs without a task are left out."""
        of_task: dict[int, list[int]] = {}
        for row in rows:
            if self.tasks[row]:
                of_task.setdefault(self.tasks[row], []).append(row)
        return of_task

    def known(self, name: FigureName, rows: Rows) -> list[float]:
        """Return the known values of a figure."""
        column = self.figures[name]
        return [column[row] for row in rows if not math.isnan(column[row])]

    def judged(self, rows: Rows) -> list[int]:
        """Return the known successes, as 1 and 0."""
        return [self.success[row] for row in rows if self.success[row] != _UNJUDGED]


class GroupedRuns:
    """Groups of runs that are filled run by run. Raises QueryError for groupings that do not exist."""

    def __init__(self, by: Iterable[str]) -> None:
        self.by = groupings_in(by)
        self._columns = _Columns()
        self._rows: dict[GroupKey, array[int]] = {}
        self._names: tuple[Counter[str | None], ...] = tuple(Counter() for _ in self.by)
        """How many runs have each name, for each grouping."""
        self._tasks: dict[str, int] = {}
        self._runs = self._replays = self._running = 0

    def add(self, run: RunMeasures) -> None:
        """Add a run to its group, or count it as left out."""
        if run.is_replay:
            self._replays += 1
            return
        if run.status == "running":
            self._running += 1
            return
        self._runs += 1
        names = [by.names_of(run) for by in self.by]
        for counts, names_of_run in zip(self._names, names, strict=True):
            counts.update(names_of_run)
        for key in product(*names):
            self._rows.setdefault(key, array("q")).append(len(self._columns.tasks))
            self._add_row(run, key)

    def _add_row(self, run: RunMeasures, key: GroupKey) -> None:
        """Add a run to the columns. In the group of a tool or a server, only its own calls are counted."""
        columns, task, success = self._columns, 0, _UNJUDGED
        if run.task is not None:
            task = self._tasks.setdefault(run.task, len(self._tasks) + 1)
        if run.success is not None:
            success = int(run.success)
        columns.tasks.append(task)
        columns.success.append(success)
        columns.estimated.append(run.is_cost_estimated)
        columns.forks.append(run.is_fork)
        tool_calls, tool_errors, seconds, list_tokens = run.tool_calls, run.tool_errors, run.seconds, run.list_tokens
        for by, name in zip(self.by, key, strict=True):
            if by.kind == "tool" and name is not None:
                tool_calls, tool_errors = run.tools[name]
            elif by.kind == "server" and name is not None:
                server = run.servers[name]
                tool_calls, tool_errors = server.calls, server.errors
                seconds, list_tokens = server.seconds, server.list_tokens
        figures = (run.cost, run.tokens, seconds, run.calls, tool_calls, tool_errors, list_tokens)
        for column, value in zip(columns.figures.values(), figures, strict=True):
            column.append(math.nan if value is None else value)

    def comparison(self, against: str | None = None, *, most_names: int | None = None) -> GroupComparison:
        """Compare the groups. Raises QueryError if `against` is not a name in the last grouping.

        If `most_names` is given, only the groups with the first names of each grouping, up to this many, and their
        differences are computed.
        """
        orders = [_in_order(by, counts) for by, counts in zip(self.by, self._names, strict=True)]
        reference = next(iter(orders[-1]), None)
        if against is not None:
            reference = _checked(against, self.by[-1], orders[-1])
        groups = {key: self._group(key) for key in self._in_order([order[:most_names] for order in orders])}
        differences: tuple[GroupDifference, ...] = ()
        if self.by[-1].kind not in IN_COMMON:
            differences = tuple(self._differences(groups, reference))
        source = None
        if any(self._columns.estimated):
            source = table_name()
        return GroupComparison(
            by=self.by,
            names=tuple(map(tuple, orders)),
            runs=self._runs,
            replays=self._replays,
            running=self._running,
            forks=sum(self._columns.forks),
            against=reference,
            prices=source,
            groups=tuple(groups.values()),
            differences=differences,
        )

    def _in_order(self, orders: Sequence[Sequence[str | None]]) -> list[GroupKey]:
        """Return the keys of the groups whose names are in these orders."""
        places = [{name: place for place, name in enumerate(order)} for order in orders]
        shown = {}
        for key in self._rows:
            at = [of_name.get(name) for of_name, name in zip(places, key, strict=True)]
            if None not in at:
                shown[key] = at
        return sorted(shown, key=shown.__getitem__)

    def _group(self, key: GroupKey) -> RunGroup:
        columns, rows = self._columns, self._rows[key]
        judged = columns.judged(rows)
        return RunGroup(
            key=key,
            runs=len(rows),
            judged=len(judged),
            succeeded=sum(judged),
            success=share_of(sum(judged), len(judged)),
            estimated_costs=sum(columns.estimated[row] for row in rows),
            figures={name: _spread_of(columns.known(name, rows)) for name in FIGURES},
        )

    def _differences(self, groups: Mapping[GroupKey, RunGroup], name: str | None) -> Iterator[GroupDifference]:
        """Yield the difference of each group from the group that has the reference's name in the last grouping."""
        reference, rows_by_task = None, {}
        for key, group in groups.items():
            other = (*key[:-1], name)
            if key == other or other not in self._rows:
                continue
            if reference is None or reference.key != other:
                reference, rows_by_task = self._group(other), self._columns.by_task(self._rows[other])
            yield GroupDifference(
                key,
                other,
                difference_of(group.success, reference.success),
                {name: _median_difference(group.figures[name], reference.figures[name]) for name in FIGURES},
                self._pairs(self._rows[key], rows_by_task),
            )

    def _pairs(self, rows: Rows, reference_rows: Mapping[int, Rows]) -> TaskPairs | None:
        """Compare two groups over the tasks that both did. Return None if there is no such task."""
        columns = self._columns
        of_task = columns.by_task(rows)
        pairs = [(of_task[task], reference_rows[task]) for task in of_task if task in reference_rows]
        if not pairs:
            return None
        figures: dict[FigureName, PairedFigure | None] = {}
        for name in FIGURES:
            known = [(columns.known(name, one), columns.known(name, other)) for one, other in pairs]
            differences = sorted(median(values) - median(others) for values, others in known if values and others)
            middle = median_of(differences)
            figures[name] = None
            if middle is not None:
                figures[name] = PairedFigure(len(differences), middle)
        judged = [(columns.judged(one), columns.judged(other)) for one, other in pairs]
        return TaskPairs(len(pairs), _paired_success(judged), figures)


def _in_order(by: Grouping, counts: Counter[str | None]) -> list[str | None]:
    """Return the names of a grouping in order: the newest day first, all others by their numbers of runs."""
    if by.kind == "day":
        return sorted(counts, key=lambda name: name or "", reverse=True)
    return sorted(counts, key=lambda name: (name is None, -counts[name], name or ""))


def _checked(against: str, by: Grouping, names: Sequence[str | None]) -> str:
    if against in names:
        return against
    known = [repr(name) for name in names if name is not None]
    listed = ", ".join(known[:_MAX_NAMED]) or "none"
    if len(known) > _MAX_NAMED:
        listed += f" and {len(known) - _MAX_NAMED:,} more"
    raise QueryError(f"no run has the {by} {against!r} to compare with; the groups are {listed}")


def _spread_of(values: Sequence[float]) -> FigureSpread | None:
    ordered = sorted(values)
    middle = median_of(ordered)
    if middle is None:
        return None
    return FigureSpread(
        runs=len(ordered),
        total=math.fsum(ordered),
        median=middle,
        low_quartile=quantile_of(ordered, 0.25),
        high_quartile=quantile_of(ordered, 0.75),
        least=ordered[0],
        most=ordered[-1],
    )


def _median_difference(spread: FigureSpread | None, reference: FigureSpread | None) -> Estimate | None:
    if spread is None or reference is None:
        return None
    return difference_of(spread.median, reference.median)


def _paired_success(judged: Iterable[tuple[Sequence[int], Sequence[int]]]) -> PairedSuccess | None:
    """Compare the successes of two groups in each task."""
    better = worse = equal = 0
    for values, others in judged:
        if not values or not others:
            continue
        excess = sum(values) * len(others) - sum(others) * len(values)
        better += excess > 0
        worse += excess < 0
        equal += excess == 0
    tasks = better + worse + equal
    difference = paired_difference_of(better, worse, tasks)
    if difference is None:
        return None
    return PairedSuccess(tasks, better, worse, equal, difference)
