"""The command `score`: computes a reward for each saved run by a function, and appends the reward to the journal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from trace_recorder.cli.arguments import (
    DefaultRuns,
    IndexPath,
    Recursive,
    check_names,
    completion_of,
    local_paths,
    parse_key_values,
)
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName
from trace_recorder.cli.output import Progress, console, fail, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, failure_message, process_or_error, read_run
from trace_recorder.cli.selecting import Limit, Reverse, SortBy, Where, select_runs, selection_of
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.figures.stats import Spread
from trace_recorder.formats.toolbrain.parsing import DEFAULT_PARSER, PARSERS, Parser
from trace_recorder.formats.toolbrain.reward_functions import (
    RewardFunction,
    is_batch,
    located_error,
    reward_function,
    score_batch,
)
from trace_recorder.formats.toolbrain.reward_functions import score as score_of
from trace_recorder.guard import try_call
from trace_recorder.recording.amend import append_rewards
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory

RewardFunctions = Annotated[
    list[str],
    typer.Option(
        "--reward",
        metavar="MODULE:FUNCTION",
        help="The function that scores a run, as MODULE:FUNCTION or FILE.py:FUNCTION. May be repeated.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The name of the reward, if there is one. Default: the function's."),
]
Weight = Annotated[float, typer.Option("--weight", metavar="NUMBER", help="The weight of each reward.")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="An argument that is passed to the function by name. A value may be JSON."
    ),
]
ParserName = Annotated[
    str,
    typer.Option(
        "--parser",
        metavar="NAME",
        help=f"The parser that makes the turns: one of {', '.join(PARSERS)}.",
        autocompletion=completion_of(PARSERS),
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Also score runs that have a reward of this name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the rewards, and write nothing.")]


def score(  # noqa: PLR0913, PLR0917 - one argument for each option
    rewards: RewardFunctions,
    paths: DefaultRuns = None,
    name: Name = None,
    weight: Weight = 1.0,
    variables: Variables = None,
    parser: ParserName = DEFAULT_PARSER,
    again: Again = False,
    dry_run: DryRun = False,
    recursive: Recursive = False,
    where: Where = None,
    sort: SortBy = None,
    reverse: Reverse = False,
    limit: Limit = None,
    index: IndexPath = None,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Score runs, and append the rewards to their journals.

    A function whose first parameter is called `traces` gets all runs at once, and can compare them. The runs must have
    ended. Recorded facts do not change; the documents are written again. Exits with 1 if a run could not be scored.
    """
    workers = Engine(engine, address)
    check_names([parser], PARSERS, "--parser")
    names = _names_of(rewards, name)
    values = parse_key_values(variables or [], "--set")
    selection = selection_of(where, sort=sort, reverse=reverse, limit=limit)
    scorings: list[_Scoring] = []
    try:
        for reward_name, reward in names.items():
            fields = {"name": reward_name, "weight": weight, "explanation": f"scored by {reward}"}
            function = reward_function(reward)
            scorer = Scorer(reward, function, parser, values, reward_name, again=again)
            if workers.repeats_tasks:  # each process imports the function
                scorer = replace(scorer, function=None)
            scorings.append(_Scoring(function, PARSERS[parser], values, fields, scorer, again=again, dry_run=dry_run))
    except ValueError as error:
        fail(str(error))
    selected = select_runs(local_paths(paths, "score"), selection, index=index, recursive=recursive)
    runs = selected.paths
    failures = selected.unreadable
    for scoring in scorings:
        failed = scoring.batch(runs) if is_batch(scoring.function) else scoring.each(runs, workers)
        print_lines(console(), [scoring.summary(len(runs), failed)])
        failures += failed
    if failures:
        raise typer.Exit(1)


def _names_of(functions: Sequence[str], name: str | None) -> dict[str, str]:
    """Return the functions by the names of their rewards. Raises BadParameter if two rewards have one name.

    A second reward of a name would replace the first.
    """
    names: dict[str, str] = {}
    for function in functions:
        reward_name = name or function.rpartition(":")[2]
        if reward_name in names:
            both = f"{names[reward_name]} and {function}"
            raise typer.BadParameter(
                f"{both} would both give the reward {reward_name!r}: score them one after the other, each with --name",
                param_hint="--reward",
            )
        names[reward_name] = function
    return names


@dataclass(frozen=True, slots=True)
class Scorer:
    """A callable that computes the reward of the run at a path.

    If `function` is None, each process imports the function that `reward` names.
    """

    reward: str
    function: RewardFunction | None
    parser: str
    values: dict[str, Payload]
    name: str
    again: bool

    def __call__(self, path: Path) -> float | Literal["scored before"] | UnreadableError | None:
        """Return the reward, or None if the function returned None. If the run is not scored, return the reason."""
        return process_or_error(path, partial(self._score, path), "scored")

    def is_scored(self, trajectory: Trajectory) -> bool:
        """Return whether a run has this reward and is not to be scored again."""
        return not self.again and self.name in rewards_of(trajectory)

    def _score(self, path: Path) -> float | Literal["scored before"] | None:
        trajectory = read_run(path)
        if self.is_scored(trajectory):
            return "scored before"
        function = self.function or _function_of(self.reward)

        def refuse(error: Exception) -> NoReturn:
            raise UnreadableError(f"{path} cannot be scored: {located_error(error, function)}") from error

        return try_call(partial(score_of, trajectory, function, PARSERS[self.parser], **self.values), refuse)


@cache
def _function_of(name: str) -> RewardFunction:
    """Return a reward function by its name. Each process imports a function once."""
    return reward_function(name)


@dataclass(frozen=True, slots=True)
class _Scoring:
    """The scoring of runs: one by one (`each`), or all at once (`batch`).

    Both methods report the runs that cannot be scored, and return the number of these runs.
    """

    function: RewardFunction
    parser: Parser
    values: dict[str, Payload]
    fields: dict[str, Payload]
    scorer: Scorer
    again: bool
    dry_run: bool
    spread: Spread = field(default_factory=Spread)
    without: Counter[str] = field(default_factory=Counter)

    def summary(self, runs: int, failed: int) -> str:
        """Return how many runs were scored, and the mean of the rewards."""
        verb = "would score" if self.dry_run else "scored"
        not_scored = {**self.without, "could not be": failed}
        words = [f"{verb} {self.spread.runs} of {pluralize(runs, 'run')}"]
        words += [f"{number} {why}" for why, number in not_scored.items() if number]
        summary = ", ".join(words)
        if not self.spread.runs:
            return summary
        figures = self.spread.to_json()
        summary += f": mean {self.fields['name']} {figures['mean']:g}"
        if self.spread.least < self.spread.most:
            summary += f", from {figures['least']:g} to {figures['most']:g}"
        return summary

    def each(self, paths: Sequence[Path], engine: Engine) -> int:
        """Score one run after another. Other processes may compute the rewards, but only this process appends them."""
        with Progress(len(paths)) as progress:
            results = progress.over(zip(paths, engine.in_order(self.scorer, paths), strict=True))
            return sum(not _report(path, partial(self._take, path, result), progress) for path, result in results)

    def batch(self, paths: Sequence[Path]) -> int:
        """Score all runs at once, except runs that are still written or have the reward already."""
        runs: dict[Path, Trajectory] = {}
        with Progress(len(paths)) as progress:
            failed = sum(
                not _report(path, partial(self._collect, path, runs), progress) for path in progress.over(paths)
            )

        def fail_all(error: Exception) -> NoReturn:
            fail(f"the runs cannot be scored: {located_error(error, self.function)}")

        if not runs:
            return failed
        score_runs = partial(score_batch, [*runs.values()], self.function, self.parser, **self.values)
        values = try_call(score_runs, fail_all)
        return failed + sum(
            not _report(path, partial(self._store, path, value)) for path, value in zip(runs, values, strict=True)
        )

    def _take(self, path: Path, result: float | Literal["scored before"] | UnreadableError | None) -> str:
        if isinstance(result, UnreadableError):
            raise result
        if result == "scored before":
            return self._scored_before()
        return self._store(path, result)

    def _collect(self, path: Path, runs: dict[Path, Trajectory]) -> str:
        trajectory = read_run(path)
        if trajectory.status == "running":
            raise UnreadableError(f"{path} is still being written: score the run when it has ended.")
        if self.scorer.is_scored(trajectory):
            return self._scored_before()
        runs[path] = trajectory
        return ""

    def _scored_before(self) -> str:
        self.without["scored before"] += 1
        return "has this reward already (--again scores it again)"

    def _store(self, path: Path, value: float | None) -> str:
        if value is None:
            self.without["without a reward"] += 1
            return "no reward"
        if not self.dry_run:
            append_rewards(path, [{**self.fields, "value": value}])
        self.spread.merge(Spread(1, value, value, value))
        return f"{self.fields['name']} {value:g}"


def _report(path: Path, work: Callable[[], str | None], progress: Progress | None = None) -> bool:
    """Call `work` for a run and print the text that it returns.

    If `work` fails, report the failure and return False.
    """

    def refuse(error: Exception) -> None:
        if progress:
            progress.hide()
        if isinstance(error, UnreadableError):
            warn(str(error))
        else:
            warn(failure_message(path, error, "scored"))

    outcome = try_call(work, refuse)
    if outcome:
        if progress:
            progress.hide()
        print_lines(console(), [f"{path}: {outcome}"])
        sys.stdout.flush()
    return outcome is not None
