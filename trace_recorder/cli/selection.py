"""The options by which `list` and `export` select runs, which runs they select, and the order of `list`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import typer

from trace_recorder.catalog import query
from trace_recorder.catalog.query import Term
from trace_recorder.cli.list_runs import ListedRun, start_of
from trace_recorder.errors import QueryError
from trace_recorder.values.messages import Payload

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="Only runs with this text in the provider/model of a call."),
]
Task = Annotated[str | None, typer.Option("--task", metavar="WORDS", help="Only runs with this text in their task.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only runs that began at this time or later: 2025-06-12T22:05, or 7d (ago)."
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only runs that began before this time: 2025-06-12, or 12h (ago)."),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed or did not succeed.")]
Tool = Annotated[
    str | None, typer.Option("--tool", metavar="NAME", help="Only runs in which a model called this tool.")
]
Reward = Annotated[str | None, typer.Option("--reward", metavar="NAME", help="Only runs with this reward.")]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Only runs with this value in their metadata. May be repeated."),
]


def time_of(text: str | None, option: str) -> datetime | None:
    """Parse a date, a time, or a duration before now. A time without a zone is local. Raises BadParameter."""
    if text is None:
        return None
    try:
        return query.time_of(text)
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def metadata_of(pairs: list[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE pairs. Raises BadParameter."""
    metadata = dict(pair.partition("=")[::2] for pair in pairs or ())
    if bad := next((pair for pair in pairs or () if "=" not in pair), None):
        raise typer.BadParameter(f"{bad!r} is not KEY=VALUE", param_hint="--meta")
    return metadata


SORTS = ("time", "duration", "cost", "tokens", "calls")


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions that a run must match, and the order of the runs."""

    statuses: Sequence[str] = ()
    model: str | None = None
    """A part of `provider/model`. Case is ignored, as in `task`."""
    task: str | None = None
    since: datetime | None = None
    """A time with a time zone. So is `until`."""
    until: datetime | None = None
    failed: bool = False
    """Only runs that failed or did not succeed."""
    errors: bool = False
    """Only runs with an error, a failed call or a failed tool."""
    tool: str | None = None
    """Only runs in which a model called this tool."""
    reward: str | None = None
    """Only runs with this reward."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Only runs whose metadata has these values, as texts."""
    sort: str = "time"
    """One of `SORTS`."""
    reverse: bool = False
    limit: int | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """The conditions as terms of the query language."""
        values: dict[str, str | float | None] = {
            "status": ",".join(self.statuses) or None,
            "model": self.model,
            "task": self.task,
            "tool": self.tool,
            "reward": self.reward,
            "is": "failed" if self.failed else None,
            "has": "error" if self.errors else None,
            "since": None if self.since is None else self.since.timestamp(),
            "until": None if self.until is None else self.until.timestamp(),
        }
        metadata = (Term("meta", name, "=", text=text) for name, text in self.metadata.items())
        return (*(Term(field, value) for field, value in values.items() if value is not None), *metadata)

    def __call__(self, runs: Iterable[ListedRun]) -> list[ListedRun]:
        """Return the first `limit` runs in the order of `sort`.

        Runs with an unknown sort key come last, even if the order is reversed.
        """
        return self._sorted([*runs])[: self.limit]

    def _sorted(self, runs: list[ListedRun]) -> list[ListedRun]:
        runs.sort(key=start_of, reverse=self.reverse)
        if self.sort == "time":
            return runs
        figures = [(_figure(run, self.sort), run) for run in runs]
        known = [(figure, run) for figure, run in figures if figure is not None]
        known.sort(key=lambda pair: pair[0], reverse=self.reverse)
        return [run for _, run in known] + [run for figure, run in figures if figure is None]


def _figure(run: ListedRun, sort: str) -> float | None:
    """Return the sort key of a run, or None if it is unknown."""
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
    """Return the number that a file states, or None if the value is not a number."""
    return value if isinstance(value, int | float) and not math.isnan(value) else None
