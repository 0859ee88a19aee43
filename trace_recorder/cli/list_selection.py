"""Which runs the command `list` shows, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import get_args

from trace_recorder.catalog.rows import Row
from trace_recorder.cli.list_runs import Run, start_of
from trace_recorder.cli.text_layout import text_of
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Status

SORTS = ("time", "duration", "cost", "tokens", "calls")
_JUDGEMENTS = {True: "success", False: "no-success"}
STATUSES: tuple[str, ...] = (*get_args(Status), *_JUDGEMENTS.values())
"""How a run ended, and what the caller said of it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a run has to match, and the order. A run for which that is unknown does not match."""

    statuses: Sequence[str] = ()
    model: str | None = None
    """A part of `provider/model`; capital letters make no difference, as in `task`."""
    task: str | None = None
    since: datetime | None = None
    """With a time zone, as `until`."""
    until: datetime | None = None
    failed: bool = False
    """Only runs that failed, or did not succeed."""
    errors: bool = False
    """Only runs with an error, a failed call or a failed tool."""
    tool: str | None = None
    """Only runs in which a model asked for this tool."""
    reward: str | None = None
    """Only runs with this reward."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Only runs whose metadata has these values, as texts."""
    sort: str = "time"
    """One of `SORTS`."""
    reverse: bool = False
    limit: int | None = None

    @property
    def selects(self) -> bool:
        """Whether it can leave a run out."""
        return bool(self.statuses or self.failed or self.errors or self.metadata) or any(
            one is not None for one in (self.model, self.task, self.since, self.until, self.tool, self.reward)
        )

    def __call__(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that match, sorted. Those whose figure is unknown come last, in either direction."""
        found = self._sorted([one for one in runs if self._matches(one)])
        return found[: self.limit]

    def _sorted(self, runs: list[Run]) -> list[Run]:
        runs.sort(key=start_of, reverse=self.reverse)
        if self.sort == "time":
            return runs
        figures = [(_figure(one, self.sort), one) for one in runs]
        known = [(figure, one) for figure, one in figures if figure is not None]
        known.sort(key=lambda pair: pair[0], reverse=self.reverse)
        return [one for _, one in known] + [one for figure, one in figures if figure is None]

    def _matches(self, run: Run) -> bool:
        row = run.row
        words = {row.status, *([] if row.success is None else [_JUDGEMENTS.get(row.success)])}
        served = f"{text_of(row.provider)}/{text_of(row.model)}"
        return (
            (not self.statuses or not words.isdisjoint(self.statuses))
            and self._is_in_time(row)
            and (not self.failed or _has_failed(row))
            and (not self.errors or _has_errors(run))
            and (self.reward is None or self.reward in row.rewards)
            and all(
                name in run.metadata and text_of(run.metadata[name]) == self.metadata[name] for name in self.metadata
            )
            and _is_in(self.model, served)
            and _is_in(self.task, text_of(row.task))
            and (self.tool is None or self.tool in run.tool_names())  # the last, because it reads the calls
        )

    def _is_in_time(self, row: Row) -> bool:
        if self.since is None and self.until is None:
            return True
        begun = _time_of(row.start_time)
        if begun is None:
            return False
        return (self.since is None or begun >= self.since) and (self.until is None or begun < self.until)


def _is_in(part: str | None, whole: str) -> bool:
    return part is None or part.casefold() in whole.casefold()


def _time_of(start_time: Payload) -> datetime | None:
    try:
        return datetime.fromisoformat(start_time).astimezone()
    except (ValueError, TypeError, OverflowError):
        return None


def _has_failed(row: Row) -> bool:
    return row.success is False or row.status == "failed"


def _has_errors(run: Run) -> bool:
    failed = (_number(run.metrics.get(name)) for name in ("failed_llm_calls", "failed_tool_calls"))
    return run.error is not None or any(failed)


def _figure(run: Run, sort: str) -> float | None:
    """Return what runs are sorted by; None where it is not known."""
    row = run.row
    if sort == "duration":
        return _number(row.execution_time)
    if sort == "cost":
        return _number(run.row_with_costs.cost)
    if sort == "calls":
        return _number(row.llm_calls)
    counts = [count for count in (_number(row.input_tokens), _number(row.output_tokens)) if count is not None]
    return sum(counts) if counts else None


def _number(value: Payload) -> float | None:
    """Return a number of a file; None for anything else that is there in its place."""
    return value if isinstance(value, int | float) and not math.isnan(value) else None
