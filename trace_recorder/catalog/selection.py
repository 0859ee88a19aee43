"""States which runs a command uses, and in which order: the terms of a query, a sort order, and a limit.

The command line and the viewer have the same names for the same orders.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar, get_args

from trace_recorder.catalog.query import Term
from trace_recorder.catalog.rows import Row
from trace_recorder.catalog.run_values import number_of_value, seconds_of, sum_of_numbers, text_or_none
from trace_recorder.catalog.searched_values import Single

T = TypeVar("T")
Sort = Literal["time", "duration", "cost", "tokens", "calls"]
"""The time at which a run began, how long it took, and the figures of its calls."""
SORTS: tuple[Sort, ...] = get_args(Sort)


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs that match all terms, in the order of `sort`, and of these the first `limit`."""

    terms: tuple[Term, ...] = ()
    sort: Sort | None = None
    """The smallest value comes first. None means the order "time", or no order if all runs are selected."""
    reverse: bool = False
    limit: int | None = None

    @property
    def is_every_run(self) -> bool:
        """Whether all runs are selected in any order. Then no run has to be read to select it."""
        return self == ALL_RUNS

    @property
    def key_values(self) -> tuple[str, ...]:
        """The names of the values of a run, as an index has them, that decide its place in the order."""
        if self.sort in {None, "time"}:
            return ("began",)
        return "began", _VALUES[self.sort]

    def in_order(self, runs: Iterable[T], key_of: Callable[[T], OrderKey]) -> list[T]:
        """Return the first `limit` runs in the order of `sort`.

        If the order is "cost", the keys must have the costs of all calls. Runs with an equal or an unknown figure are
        in the order of time. Runs with an unknown figure come last, even if the order is reversed.
        """
        if self.sort in {None, "time"}:
            return self._first(runs, key_of)
        known, unknown = [], []
        for run in runs:
            if key_of(run).figure is None:
                unknown.append(run)
            else:
                known.append(run)
        return [*self._first(known, key_of), *self._first(unknown, key_of)][: self.limit]

    def _first(self, runs: Iterable[T], key_of: Callable[[T], OrderKey]) -> list[T]:
        def key(run: T) -> tuple[float, float, str]:
            figure, began, path = key_of(run)
            return figure or 0, -math.inf if began is None else began, path

        if self.limit is None:
            return sorted(runs, key=key, reverse=self.reverse)
        if self.reverse:
            return heapq.nlargest(self.limit, runs, key)
        return heapq.nsmallest(self.limit, runs, key)


ALL_RUNS = Selection()


class OrderKey(NamedTuple):
    """The place of a run in an order: its figure and its start, which may be unknown, and its path."""

    figure: float | None
    began: float | None
    path: str


def order_key(values: Sequence[Single], path: str) -> OrderKey:
    """Return the key of a run with the values that `Selection.key_values` names."""
    began, figure = (*values, None)[:2]
    return OrderKey(_number(figure), _number(began), path)


def values_of_row(row: Row, names: Iterable[str]) -> tuple[Single, ...]:
    """Return the values with these names, as an index has them, of a run that no index has."""
    return tuple(_OF_ROW[name](row) for name in names)


def _number(value: Single) -> float | None:
    if isinstance(value, int | float):
        return value
    return None


_VALUES: dict[Sort | None, str] = {"duration": "seconds", "cost": "cost", "tokens": "tokens", "calls": "calls"}
_OF_ROW: dict[str, Callable[[Row], Single]] = {
    "began": lambda row: seconds_of(row.start_time)[0],
    "seconds": lambda row: number_of_value(row.execution_time),
    "cost": lambda row: number_of_value(row.cost),
    "tokens": lambda row: sum_of_numbers((row.input_tokens, row.output_tokens)),
    "calls": lambda row: number_of_value(row.llm_calls),
    "trajectory_id": lambda row: text_or_none(row.trajectory_id),
    "parent": lambda row: text_or_none(row.parent),
    "session": lambda row: text_or_none(row.session),
    "origin_file": lambda row: (row.forked_from or "").rpartition(" ")[0] or row.replay_of,
}
"""The values of `run_values.values_of`, from a row."""
