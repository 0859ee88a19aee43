"""Two runs compared: aligned by step, the first step at which they differ, and what each cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Literal, get_args

from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import RunOrigin, run_origin_of
from trace_recorder.values.short_forms import call_repr
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.comparison.changed_ranges import changed_ranges
from trace_recorder.views.comparison.comparable_steps import KINDS, ComparableStep, ComparableSteps, Kind
from trace_recorder.views.comparison.figures import Figures, figures_of
from trace_recorder.views.comparison.left_aside import Ignored
from trace_recorder.views.comparison.value_changes import ValueChange, changes, equal_json
from trace_recorder.views.conversations.steps_and_calls import StepOrCall

DifferenceKind = Literal[Kind, "model", "missing"]
Model = str | None
_MAY_BE_UNKNOWN = {"success", "name"}
"""Members of a tool's result that some ways of recording do not have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of two steps: `before` is of the first run, `after` of the second.

    Of a prompt, they have only the new messages. The kind
    `missing` means that only one of the runs has the step.
    """

    kind: DifferenceKind
    before: Payload = None
    after: Payload = None

    def changes(self) -> list[ValueChange]:
        """Return the changes one by one, each with its path."""
        return [] if self.kind == "missing" else [*changes(self.before, self.after, _PATHS.get(self.kind, ""))]

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {"kind": self.kind, "changes": [one.to_dict() for one in self.changes()]}


_PATHS = {"tools": "tools", "parameters": "parameters", "tool_call": "tool_calls", "tool_result": "tool_results"}


@dataclass(frozen=True, slots=True)
class DiffSide:
    """A step or a call of one of the runs, and its cost."""

    source: StepOrCall

    def __repr__(self) -> str:
        call = self.source.call
        known = without_none(step_number=self.source.step_number, interaction_id=call and call.interaction_id)
        return call_repr("DiffSide", known)

    @property
    def figures(self) -> Figures:
        """The figures of its call."""
        return figures_of([self.source.call] if self.source.call else [])

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        step, call = self.source.step, self.source.call
        one = call or step
        return without_none(
            step_number=self.source.step_number,
            interaction_id=call.interaction_id if call else None,
            agent=one.agent if one else None,
            timestamp=self.source.timestamp,
            replayed_from=call.replayed_from.to_document() if call and call.replayed_from else None,
            **self.figures.to_dict(),
        )


@dataclass(frozen=True, slots=True)
class DiffStep:
    """A step of each run, or of only one of them."""

    a: DiffSide | None
    b: DiffSide | None
    differences: tuple[Difference, ...] = ()

    def __repr__(self) -> str:
        kinds = [one.kind for one in self.differences]
        return call_repr("DiffStep", {"a": self.a, "b": self.b, "differences": kinds})

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {
            "a": self.a and self.a.to_dict(),
            "b": self.b and self.b.to_dict(),
            "differences": [one.to_dict() for one in self.differences],
        }


@dataclass(frozen=True, slots=True)
class DiffRun:
    """One of the runs: its task, how it ended, and what it cost. `seconds` is the duration of the run."""

    trajectory_id: str | None
    task: str | None
    model: str | None
    status: str
    success: bool | None
    steps: int
    seconds: float | None
    figures: Figures
    origin: RunOrigin | None = None
    """The run that it repeats or continues."""

    @classmethod
    def of(cls, run: Trajectory) -> DiffRun:
        """Summarize a run."""
        return cls(
            trajectory_id=run.trajectory_id,
            task=run.task,
            model=run.model,
            status=run.status,
            success=run.success,
            steps=len(run.agent_steps),
            seconds=run.execution_time,
            figures=figures_of(run.llm_interactions),
            origin=run_origin_of(run.metadata),
        )

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        members = asdict(self)
        del members["figures"], members["origin"]
        return members | self.figures.to_dict() | (self.origin.in_metadata() if self.origin else {})


@dataclass(frozen=True, slots=True)
class TrajectoryDiff:
    """Two runs, aligned by step. `parts_at` is the number, from 0, of the first of `steps` in which they differ.

    `models` are the pairs of different models, of the first run and of the second, that made the same step.
    """

    a: DiffRun
    b: DiffRun
    steps: tuple[DiffStep, ...]
    parts_at: int | None
    models: tuple[tuple[Model, Model], ...] = ()

    def __repr__(self) -> str:
        first = self.first_difference
        known = {"equal": self.equal, **without_none(parts_at=self.parts_at, first=first and first.kind)}
        different = sum(bool(step.differences) for step in self.steps)
        return call_repr("TrajectoryDiff", known, [(len(self.steps), "step"), (different, "different step")])

    @property
    def equal(self) -> bool:
        """Whether no step differs."""
        return self.parts_at is None

    @property
    def first_difference(self) -> Difference | None:
        """The first difference of the runs."""
        return None if self.parts_at is None else self.steps[self.parts_at].differences[0]

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {
            "equal": self.equal,
            "parts_at": self.parts_at,
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "models": [{"a": one, "b": other} for one, other in self.models],
            "steps": [step.to_dict() for step in self.steps],
        }


def diff(a: Trajectory, b: Trajectory, *, ignore: Collection[Ignored] = ("ids", "times")) -> TrajectoryDiff:
    """Compare two runs step by step: prompts, models, tools, parameters, answers, tool calls and tool results.

    Values are compared by content. `ignore` names what makes no difference: ids of calls and answers, and times, by
    default; a kind of difference, such as "parameters", or "reasoning". Raises ValueError for another name. If one
    model replaces another throughout, its name is not a difference. So the runs of two models differ first where the
    models act differently.
    """
    for run in (a, b):
        if not isinstance(run, Trajectory):
            raise TypeError(f"diff() takes two trajectories, such as load() returns, and was given {run!r}.")
    if isinstance(ignore, str) or {*ignore} - {*get_args(Ignored)}:
        raise ValueError(f"ignore={ignore!r}: a collection of {', '.join(get_args(Ignored))}")
    pairs = [*_aligned(ComparableSteps(ignore).of(a), ComparableSteps(ignore).of(b))]
    models = [*filter(None, (_models(*pair) for pair in pairs))]
    compares_models = "model" not in ignore and not _are_renamed(models)
    steps = tuple(_diff_step(*pair, compares_models=compares_models) for pair in pairs)
    parts_at = next((number for number, step in enumerate(steps) if step.differences), None)
    others = dict.fromkeys((run, other) for run, other in models if run != other)
    return TrajectoryDiff(DiffRun.of(a), DiffRun.of(b), steps, parts_at, (*others,))


def _are_renamed(pairs: Collection[tuple[Model, Model]]) -> bool:
    """Whether each model of the first run is always paired with one model of the second, and the other way round.

    Runs of two models are compared to see what the models did, so a different name alone is not a difference.
    """
    distinct = {*pairs}
    return len({one for one, _ in distinct}) == len(distinct) == len({other for _, other in distinct})


def _diff_step(a: ComparableStep | None, b: ComparableStep | None, *, compares_models: bool) -> DiffStep:
    one, other = (None if step is None else DiffSide(step.source) for step in (a, b))
    return DiffStep(one, other, (*_differences(a, b, compares_models=compares_models),))


def _models(a: ComparableStep | None, b: ComparableStep | None) -> tuple[Model, Model] | None:
    """Return the models of two steps that both have a call."""
    one, other = (step.source.call if step else None for step in (a, b))
    return (one.model, other.model) if one and other else None


def _differences(a: ComparableStep | None, b: ComparableStep | None, *, compares_models: bool) -> Iterator[Difference]:
    if a is None or b is None:
        yield Difference("missing")
        return
    if compares_models and (models := _models(a, b)) and models[0] != models[1]:
        yield Difference("model", *models)
    for kind in KINDS:
        if a.digests[kind] != b.digests[kind]:
            before, after = _known_to_both(a.parts[kind], b.parts[kind])
            if not equal_json(before, after):
                yield Difference(kind, before, after)


def _known_to_both(before: Payload, after: Payload) -> tuple[Payload, Payload]:
    """Return two values without the members that only one way of recording has. These are not differences."""
    if isinstance(before, dict) and isinstance(after, dict):
        unknown = _MAY_BE_UNKNOWN & (before.keys() ^ after.keys())
        one, other = ({name: value for name, value in each.items() if name not in unknown} for each in (before, after))
        return one, other
    if isinstance(before, list) and isinstance(after, list) and before and len(before) == len(after):
        pairs = [_known_to_both(*pair) for pair in zip(before, after, strict=True)]
        return [one for one, _ in pairs], [other for _, other in pairs]
    return before, after


Pair = tuple[ComparableStep | None, ComparableStep | None]


def _aligned(a: Sequence[ComparableStep], b: Sequence[ComparableStep]) -> Iterator[Pair]:
    """Pair the steps of two runs: first those in which the model did the same, then the steps between them in order."""
    position = 0
    for start, end, now, until in changed_ranges([one.key for one in a], [one.key for one in b]):
        yield from zip(a[position:start], b[now - (start - position) : now], strict=True)
        yield from zip_longest(a[start:end], b[now:until])
        position = end
    yield from zip(a[position:], b[len(b) - (len(a) - position) :], strict=True)
