"""States which runs a command uses, and in which order: the terms of a query, a sort order, and a limit.

The command line and the viewer have the same names for the same orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from trace_recorder.catalog.query import Term
from trace_recorder.catalog.rows import Row
from trace_recorder.values.messages import Payload

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

    def in_order(self, runs: Iterable[T], row_of: Callable[[T], Row]) -> list[T]:
        """Return the first `limit` runs in the order of `sort`.

        If the order is "cost", the rows must have the costs of all calls. Runs with an equal or an unknown sort key are
        in the order of time. Runs with an unknown sort key come last, even if the order is reversed.
        """

        def start_key(run: T) -> tuple[str, str]:
            row = row_of(run)
            return str(row.start_time or ""), row.path

        by_time = sorted(runs, key=start_key, reverse=self.reverse)
        if self.sort in {None, "time"}:
            return by_time[: self.limit]
        known, unknown = [], []
        for run in by_time:
            figure = _figure(row_of(run), self.sort)
            if figure is None:
                unknown.append(run)
            else:
                known.append((figure, run))
        known.sort(key=lambda pair: pair[0], reverse=self.reverse)
        return [*(run for _, run in known), *unknown][: self.limit]


ALL_RUNS = Selection()


def _figure(row: Row, sort: Sort | None) -> float | None:
    """Return the sort key of a run, or None if it is unknown."""
    if sort == "duration":
        return _number(row.execution_time)
    if sort == "cost":
        return _number(row.cost)
    if sort == "calls":
        return _number(row.llm_calls)
    tokens_in, tokens_out = _number(row.input_tokens), _number(row.output_tokens)
    if tokens_in is None:
        return tokens_out
    return tokens_in + (tokens_out or 0)


def _number(value: Payload) -> float | None:
    """Return the number that a file states, or None if the value is not a number."""
    if isinstance(value, int | float) and not math.isnan(value):
        return value
    return None
