"""Lists the runs of directories, one row each, and the files that cannot be read. Unfinished runs have rows too.

`Selection` has the conditions and the order of the rows, from the options of `list` and `export`. `list_table.py` lays
the rows out for people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trace_recorder.catalog import query
from trace_recorder.catalog.costs_in_files import run_costs_or_unknown
from trace_recorder.catalog.query import Term, condition_of
from trace_recorder.catalog.rows import Row, ended_summary, row_of, row_of_json, row_with_costs
from trace_recorder.cli.arguments import no_runs_message, paths_or_default
from trace_recorder.cli.output import fail
from trace_recorder.cli.planned_runs import naming_in, planned_runs
from trace_recorder.cli.read_files import (
    Load,
    UnreadableError,
    find_runs,
    is_directory,
    load_local_or_remote,
    process,
    read_run,
)
from trace_recorder.errors import QueryError
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import Trajectory

if TYPE_CHECKING:
    from trace_recorder.catalog.matching import Matcher


@dataclass(frozen=True)
class ListedRun:
    """A row of the list, and the facts that decide whether the run matches.

    A row of an index has no such facts, because an index returns only runs that match.
    """

    path: Path
    row: Row
    summary: Trajectory | None = None
    """The facts of the run, or None if the row is from an index. A row of an index has the costs already."""

    @cached_property
    def row_with_costs(self) -> Row:
        """The row with the costs of all calls, as in the viewer's list. The calls are read if they may have a price."""
        if self.summary is None:
            return self.row
        return row_with_costs(self.row, partial(run_costs_or_unknown, self.path))

    def matches(self, matcher: Matcher) -> bool:
        """Return whether the run matches. The whole run is read if the matcher needs calls. Raises UnreadableError."""
        if self.summary is None:
            return True
        if matcher.needs_calls:
            return matcher(read_run(self.path))
        return matcher(self.summary)


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that is not a trajectory. The reason is a sentence that names the file."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of runs, and the files that have the same suffixes but are not runs."""

    trajectories: list[Row]
    others: list[OtherFile]


Select = Callable[[Iterable[ListedRun]], list[ListedRun]]


def oldest_first(runs: Iterable[ListedRun]) -> list[ListedRun]:
    """Return all runs, in the order in which they began."""
    return sorted(runs, key=start_key)


def start_key(run: ListedRun) -> tuple[str, str]:
    """Return the sort key of a run: the start time, then the file."""
    return str(run.row.start_time or ""), run.row.file


def listing(  # noqa: PLR0913 - each has a default
    paths: Sequence[Path],
    *,
    select: Select = oldest_first,
    terms: Sequence[Term] = (),
    load_run: Load = load_local_or_remote,
    with_costs: bool = False,
    index: Path | None = None,
) -> Listing:
    """Return the runs at these paths that match all terms.

    If `paths` is one directory, the runs are named by their paths from this directory. A run is not read if the index
    of the directory has it. Raises UnreadableError if a directory cannot be read.
    """
    name_of = naming_in(paths)
    runs, others = [], []
    matcher = None
    if terms:
        from trace_recorder.catalog.matching import Matcher  # noqa: PLC0415 - a list of all runs does not need it

        matcher = Matcher(terms)
    for planned in planned_runs(paths, condition_of(terms), index).candidates:
        name = name_of(str(planned.path))
        if planned.is_known:
            runs.append(ListedRun(planned.path, row_of_json(planned.kept, name, planned.path)))
            continue
        try:
            run = process(planned.path, partial(_read_run, planned.path, name, load_run))
            if matcher is None or process(planned.path, partial(run.matches, matcher)):
                runs.append(run)
        except UnreadableError as error:
            others.append(OtherFile(name, str(error)))
    selected = select(runs)
    if with_costs:
        return Listing([run.row_with_costs for run in selected], others)
    return Listing([run.row for run in selected], others)


def run_at(path: Path) -> Path:
    """Return the path of a file, or the newest readable run of a directory.

    Raises UnreadableError if there is no run.
    """
    if is_directory(path):
        return newest_runs(path)[-1]
    return path


def newest_run(path: Path | None) -> Path:
    """Return the run at a path as `run_at` does. If `path` is None, return the newest run of the default directory."""
    if path is not None:
        return run_at(path)
    [directory] = paths_or_default(None)
    return run_at(directory)


def newest_runs(directory: Path) -> list[Path]:
    """Return the readable runs of a directory, the newest last. Raises UnreadableError if there is no run."""
    rows = listing([directory]).trajectories
    if not rows:
        raise UnreadableError(no_runs_message([directory]))
    return [directory / row.file for row in rows]


def runs_or_exit(paths: Sequence[Path], *, recursive: bool = True) -> list[Path]:
    """Return the runs at these paths, as `find_runs` does. Exits with a sentence if there is no run.

    Raises UnreadableError.
    """
    runs = [*find_runs(paths, recursive=recursive)]
    if not runs:
        why = no_runs_message(paths)
        if not recursive and next(find_runs(paths), None) is not None:
            why += ": add --recursive to include the runs in directories below"
        fail(why)
    return runs


def _read_run(path: Path, name: str, load_run: Load) -> ListedRun:
    summary = read_summary(path, load_run)
    metrics = summary.metrics or metrics_of(summary.llm_interactions, summary.agent_steps)
    return ListedRun(path, row_of(name, path, summary, metrics), summary)


def read_summary(path: Path, load_run: Load = load_local_or_remote) -> Trajectory:
    """Read the facts about a whole run. The calls of an ended run are not read. Raises UnreadableError."""
    return ended_summary(path) or read_run(path, load_run)


ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="Only runs with this text in the provider/model of a call."),
]
TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="WORDS", help="Only runs with this text in their task.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only runs that began at this time or later: 2025-06-12T22:05, or 7d for 7 days ago.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help="Only runs that began before this time: 2025-06-12, or 12h for 12 hours ago."
    ),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed, or whose task did not succeed.")]
ToolOption = Annotated[
    str | None, typer.Option("--tool", metavar="NAME", help="Only runs in which a model called this tool.")
]
RewardOption = Annotated[str | None, typer.Option("--reward", metavar="NAME", help="Only runs with this reward.")]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Only runs with this value in their metadata. May be repeated."),
]


def time_option(text: str | None, option: str) -> datetime | None:
    """Parse a date, a time, or a duration before now. A time without a zone is local. Raises BadParameter."""
    if text is None:
        return None
    try:
        return query.parse_moment(text)
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def parse_metadata(pairs: list[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE pairs. Raises BadParameter for another form, and for a key with two values."""
    metadata: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--meta")
        if metadata.setdefault(key, value) != value:
            raise typer.BadParameter(f"no run has two values of {key}; give it one", param_hint="--meta")
    return metadata


SORTS = ("time", "duration", "cost", "tokens", "calls")


@dataclass(frozen=True, slots=True)
class Selection:
    """The conditions that a run must match, and the order of the runs."""

    statuses: Sequence[str] = ()
    model: str | None = None
    """Select only runs whose `provider/model` contains this text. Case is ignored, as in `task`."""
    task: str | None = None
    since: datetime | None = None
    """`since` and `until` are times with a time zone."""
    until: datetime | None = None
    failed: bool = False
    """Select only runs that failed, or whose task did not succeed."""
    errors: bool = False
    """Select only runs with an error, a failed call or a failed tool."""
    tool: str | None = None
    """Select only runs in which a model called this tool."""
    reward: str | None = None
    """Select only runs with this reward."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Select only runs whose metadata has these values, as texts."""
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
        }
        if self.failed:
            values["is"] = "failed"
        if self.errors:
            values["has"] = "error"
        if self.since is not None:
            values["since"] = self.since.timestamp()
        if self.until is not None:
            values["until"] = self.until.timestamp()
        metadata = (Term("meta", name, "=", text=text) for name, text in self.metadata.items())
        return (*(Term(field, value) for field, value in values.items() if value is not None), *metadata)

    def __call__(self, runs: Iterable[ListedRun]) -> list[ListedRun]:
        """Return the first `limit` runs in the order of `sort`.

        Runs with an unknown sort key come last, even if the order is reversed.
        """
        return self._sorted([*runs])[: self.limit]

    def _sorted(self, runs: list[ListedRun]) -> list[ListedRun]:
        runs.sort(key=start_key, reverse=self.reverse)
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
    tokens_in, tokens_out = _number(row.input_tokens), _number(row.output_tokens)
    if tokens_in is None:
        return tokens_out
    return tokens_in + (tokens_out or 0)


def _number(value: Payload) -> float | None:
    """Return the number that a file states, or None if the value is not a number."""
    if isinstance(value, int | float) and not math.isnan(value):
        return value
    return None
