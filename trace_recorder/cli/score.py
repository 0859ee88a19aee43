"""The command `score`: a function's rewards for saved runs, appended to their journals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.amending import append_rewards
from trace_recorder.cli.export import given
from trace_recorder.cli.printing import console, fail, print_lines, warn
from trace_recorder.cli.reading import UnreadableError, read, reason, runs_of
from trace_recorder.conversation import Payload
from trace_recorder.guard import attempt
from trace_recorder.views.rewards import Function, reward_function
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

    The runs have to have ended. Nothing that was recorded is touched; the documents are written anew. Exits with 1
    where a run could not be scored.
    """
    try:
        function = reward_function(reward)
        values = given(variables or [], "--set")
        called = name or reward.rpartition(":")[2]
        about = {"name": called, "weight": weight, "explanation": f"scored by {reward}"}
        failed = sum(not _score(path, function, values, about, (again, dry_run)) for path in runs_of(paths))
    except (ValueError, UnreadableError) as error:
        fail(str(error))
    if failed:
        raise typer.Exit(1)


def _score(
    path: Path, function: Function, values: dict[str, Payload], about: dict[str, Payload], flags: tuple[bool, bool]
) -> bool:
    """Score one run; False where that failed, which is told."""
    again, dry_run = flags

    def work() -> str:
        trajectory = read(path)
        if not again and any(one.name == about["name"] and one.step_number is None for one in trajectory.rewards):
            return "has this reward already (--again scores it again)"
        value = score_of(trajectory, function, **values)
        if value is None:
            return "no reward"
        if not dry_run:
            append_rewards(path, [{**about, "value": value}])
        return f"{about['name']} {value:g}"

    def refuse(error: Exception) -> str:
        warn(str(error) if isinstance(error, UnreadableError) else reason(path, error, "scored"))
        return ""

    said = attempt(work, refuse)
    if said:
        print_lines(console(), [f"{path}: {said}"])
        sys.stdout.flush()
    return bool(said)
