"""The command `score`: a function's rewards for saved runs, appended to their journals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from trace_recorder.amending import append_rewards
from trace_recorder.cli.export import given
from trace_recorder.cli.printing import console, fail, print_lines, warn
from trace_recorder.cli.reading import UnreadableError, read, reason, runs_of
from trace_recorder.conversation import Payload
from trace_recorder.guard import attempt
from trace_recorder.trajectory import Trajectory
from trace_recorder.views.rewards import Function, is_batch, reward_function, score_batch
from trace_recorder.views.rewards import score as score_of

Paths = Annotated[
    list[Path], typer.Argument(metavar="FILE|DIR...", help="Runs, or directories of them.", show_default=False)
]
Reward = Annotated[
    str, typer.Option("--reward", metavar="MODULE:FUNCTION", help="Scores a run; also FILE.py:FUNCTION.")
]
Name = Annotated[str | None, typer.Option("--name", help="The reward's name. Default: the function's.")]
Weight = Annotated[float, typer.Option("--weight", help="The reward's weight.")]
Variables = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Passed to the function by name; a value may be JSON."),
]
Again = Annotated[bool, typer.Option("--again", help="Score runs too that have a reward of this name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the rewards, and write nothing.")]


def score(  # noqa: PLR0913, PLR0917 - one argument an option
    paths: Paths,
    reward: Reward,
    name: Name = None,
    weight: Weight = 1.0,
    variables: Variables = None,
    again: Again = False,
    dry_run: DryRun = False,
) -> None:
    """Score runs, and append the rewards to their journals.

    A function whose first parameter is called `traces` scores all of them at once, and so may hold them against each
    other. The runs have to have ended. Nothing that was recorded is touched; the documents are written anew. Exits with
    1 where a run could not be scored.
    """
    try:
        called = name or reward.rpartition(":")[2]
        about = {"name": called, "weight": weight, "explanation": f"scored by {reward}"}
        values = given(variables or [], "--set")
        scoring = _Scoring(reward_function(reward), values, about, again=again, dry_run=dry_run)
        failed = scoring.batch(runs_of(paths)) if is_batch(scoring.function) else scoring.each(runs_of(paths))
    except (ValueError, UnreadableError) as error:
        fail(str(error))
    if failed:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Scoring:
    """Scores runs, each alone or all at once; both return how many could not be, which is told of each."""

    function: Function
    values: dict[str, Payload]
    about: dict[str, Payload]
    again: bool
    dry_run: bool

    def each(self, paths: Iterable[Path]) -> int:
        """Score one run after another."""
        return sum(not _told(path, partial(self._one, path)) for path in paths)

    def batch(self, paths: Iterable[Path]) -> int:
        """Score all runs by one call: those that go on, or have the reward already, are not among them."""
        runs: dict[Path, Trajectory] = {}
        failed = sum(not _told(path, partial(self._admit, path, runs)) for path in paths)
        values = attempt(partial(self._rewards, [*runs.values()]), self._refuse)
        return failed + sum(
            not _told(path, partial(self._keep, path, value)) for path, value in zip(runs, values, strict=True)
        )

    def _one(self, path: Path) -> str:
        trajectory = read(path)
        return self._standing(trajectory) or self._keep(path, score_of(trajectory, self.function, **self.values))

    def _admit(self, path: Path, runs: dict[Path, Trajectory]) -> str | None:
        trajectory = read(path)
        if trajectory.status == "running":
            raise UnreadableError(f"{path} is still being written: score the run when it has ended.")
        standing = self._standing(trajectory)
        if standing is None:
            runs[path] = trajectory
        return standing or ""

    def _rewards(self, runs: list[Trajectory]) -> list[float | None]:
        return score_batch(runs, self.function, **self.values) if runs else []

    def _refuse(self, error: Exception) -> NoReturn:
        fail(f"the runs cannot be scored: {type(error).__name__}: {error}")

    def _standing(self, trajectory: Trajectory) -> str | None:
        """Say that a run has this reward; None where it is to be scored."""
        if self.again or not any(
            one.name == self.about["name"] and one.step_number is None for one in trajectory.rewards
        ):
            return None
        return "has this reward already (--again scores it again)"

    def _keep(self, path: Path, value: float | None) -> str:
        if value is None:
            return "no reward"
        if not self.dry_run:
            append_rewards(path, [{**self.about, "value": value}])
        return f"{self.about['name']} {value:g}"


def _told(path: Path, work: Callable[[], str | None]) -> bool:
    """Do what is to be done with a run, and print what it says; False where that failed, which is told."""

    def refuse(error: Exception) -> None:
        warn(str(error) if isinstance(error, UnreadableError) else reason(path, error, "scored"))

    said = attempt(work, refuse)
    if said:
        print_lines(console(), [f"{path}: {said}"])
        sys.stdout.flush()
    return said is not None
