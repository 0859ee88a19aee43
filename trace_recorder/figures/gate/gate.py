"""The gate: whether live runs act as good runs of the same task did.

`tasks_of` pairs the runs, `check_task` checks the live runs of one task. A live run passes if it agrees with any good
run of its task. The runs of one task are read at a time, and the live runs one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trace_recorder.errors import RulesError
from trace_recorder.figures.gate.checked_run import CheckedRun
from trace_recorder.figures.gate.rules import Pairing, Passing, Rules
from trace_recorder.figures.gate.run_checks import (
    check_failures,
    check_limits,
    check_models,
    check_prompts,
    check_result,
)
from trace_recorder.figures.gate.tool_checks import (
    check_arguments,
    check_counts,
    check_forbidden,
    check_in_order,
    compare_tools,
)
from trace_recorder.figures.gate.violations import RuleViolation
from trace_recorder.guard import try_call
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Trajectory


def violations_of(golden: CheckedRun, live: CheckedRun, rules: Rules) -> list[RuleViolation]:
    """Return how a live run breaks the rules, compared with a good run."""
    violations = [
        *compare_tools(golden, live, rules.tools.compare),
        *check_in_order(live, rules.tools.in_order),
        *check_forbidden(live, rules.tools.forbidden),
        *check_counts(live, rules.tools.counts),
    ]
    for rule in rules.arguments:
        violations += check_arguments(live, rule, golden)
    violations += check_failures(live, rules.errors, golden)
    if rules.models:
        violations += check_models(golden, live)
    violations += check_prompts(golden, live, rules.prompts)
    violations += check_limits(live, rules.limits, golden)
    violations += check_result(live, rules.result, golden)
    return violations


class RunOfTask(NamedTuple):
    """A run, and its task if it has one."""

    path: Path
    task: str | None


@dataclass(frozen=True, slots=True)
class CheckTask:
    """The good runs and the live runs of a task. The task is None if runs are paired by their order."""

    task: str | None
    golden: Sequence[Path]
    live: Sequence[Path]


def tasks_of(golden: Sequence[RunOfTask], live: Sequence[RunOfTask], pairing: Pairing = "task") -> list[CheckTask]:
    """Pair live runs with the good runs of their task.

    If `pairing` is "order", or if no live run has the task of a good run, runs are paired by their order: all live runs
    with the only good run, or the nth live run with the nth good run. Raises RulesError if the numbers differ.
    """
    tasks = {run.task for run in golden if run.task is not None}
    if pairing == "task" and any(run.task in tasks for run in live):
        both = dict.fromkeys(run.task for run in (*golden, *live))
        return [CheckTask(task, _paths_of(golden, task), _paths_of(live, task)) for task in both]
    if len(golden) == 1:
        return [CheckTask(golden[0].task, [golden[0].path], [run.path for run in live])]
    if len(golden) != len(live):
        raise RulesError(
            f"{len(golden)} golden runs and {len(live)} live runs cannot be paired: no task is in both, and their "
            "numbers differ. Give the recorders of both the same task, or name one golden run"
        )
    return [CheckTask(good.task, [good.path], [run.path]) for good, run in zip(golden, live, strict=True)]


def _paths_of(runs: Sequence[RunOfTask], task: str | None) -> list[Path]:
    return [run.path for run in runs if run.task == task]


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Whether a live run agrees with a good run.

    `golden` is the good run that agrees, or the one with the fewest differences. It is None if there is no good run.
    """

    path: Path
    golden: Path | None
    violations: tuple[RuleViolation, ...] = ()
    unreadable: str = ""
    """Why the run could not be read, or an empty text."""

    @property
    def passed(self) -> bool:
        """Whether the run was compared with a good run, and breaks no rule."""
        return self.golden is not None and not self.violations

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return without_none(
            run=str(self.path),
            golden=self.golden and str(self.golden),
            passed=self.passed,
            unreadable=self.unreadable or None,
            violations=[violation.to_dict() for violation in self.violations],
        )


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """The verdicts of a task's live runs. `problem` is why the task as a whole does not pass, or an empty text."""

    task: str | None
    runs: Sequence[RunVerdict]
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether enough runs agree."""
        return not self.problem

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {
            "task": self.task,
            "passed": self.passed,
            "problem": self.problem or None,
            "runs": [run.to_dict() for run in self.runs],
        }


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The verdicts of all tasks."""

    tasks: Sequence[TaskVerdict] = field(default_factory=tuple)

    @property
    def passed(self) -> bool:
        """Whether each task passes."""
        return all(task.passed for task in self.tasks)

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {"passed": self.passed, "tasks": [task.to_dict() for task in self.tasks]}


Load = Callable[[Path], Trajectory | str]
"""Loads a run, or returns why it cannot be read."""


def check_task(task: CheckTask, rules: Rules, load: Load) -> TaskVerdict:
    """Check the live runs of a task."""
    golden: list[tuple[Path, CheckedRun]] = []
    problems: list[str] = []
    for path in task.golden:
        loaded = load(path)
        if isinstance(loaded, str):
            problems.append(loaded)
        else:
            golden.append((path, CheckedRun(loaded, rules.ignore)))
    runs = [_check_run(path, golden, rules, load) for path in task.live]
    if not task.golden:
        problems.append("there is no golden run of this task")
    elif not task.live:
        problems.append("there is no live run of this task")
    else:
        problems += _too_few(runs, rules.passing)
    return TaskVerdict(task.task, runs, "; ".join(problems))


GoldenRuns = Sequence[tuple[Path, CheckedRun]]


def _check_run(path: Path, golden: GoldenRuns, rules: Rules, load: Load) -> RunVerdict:
    if not golden:
        return RunVerdict(path, None)
    loaded = load(path)
    if isinstance(loaded, str):
        return RunVerdict(path, None, unreadable=loaded)
    live = CheckedRun(loaded, rules.ignore)
    # the calls of a run are read when they are asked for, and those of a damaged file may raise anything
    return try_call(partial(_nearest, path, live, golden, rules), partial(_uncheckable, path))


def _nearest(path: Path, live: CheckedRun, golden: GoldenRuns, rules: Rules) -> RunVerdict:
    """Return the verdict about a live run, compared with the good run from which it differs least."""
    verdicts: list[RunVerdict] = []
    for golden_path, good in golden:
        verdicts.append(RunVerdict(path, golden_path, tuple(violations_of(good, live, rules))))
        if verdicts[-1].passed:
            break
    return min(verdicts, key=lambda verdict: len(verdict.violations))


def _uncheckable(path: Path, error: Exception) -> RunVerdict:
    return RunVerdict(path, None, unreadable=f"{path} cannot be checked: {type(error).__name__}: {error}")


def _too_few(runs: Sequence[RunVerdict], passing: Passing) -> Iterator[str]:
    count, agree = len(runs), sum(run.passed for run in runs)
    if passing.runs is not None and passing.runs != count:
        yield f"the rules ask for {passing.runs} live runs, and the task has {count}"
    least = passing.least
    if least is None:
        least = count
    if agree < least:
        yield f"{agree} of {count} runs agree with a golden run, and {least} must"
