"""The comparison of two runs: their aligned steps, the first step at which they differ, and the cost of each run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Literal, get_args

from trace_recorder.figures.call_figures import made_calls, origin_of, sum_known
from trace_recorder.figures.comparison.comparable_steps import KINDS, ComparableStep, ComparableSteps, Ignored, PartKind
from trace_recorder.figures.conversations.run_agents import RunAgents, run_agents_of
from trace_recorder.figures.cost import Costs, cost_of, lacks_price
from trace_recorder.reading.steps_and_calls import StepOrCall
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import RunOrigin, run_origin_of
from trace_recorder.values.short_forms import call_repr
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.values.value_changes import ValueChange, changed_ranges, changes, equal_json


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over the calls of a run or a step, as far as they are known.

    A sum is None if no call has the figure. Costs are in US dollars. `estimated_cost` is the part of `cost` that was
    estimated from a table of prices. `calls_without_price` is the number of calls with known tokens whose cost is
    unknown, in whole or in part, or None if there are no such calls. `llm_seconds` is the sum of the durations of the
    calls. `replayed_calls` is the number of calls whose answers a replay or a fork gave, or None if there are no such
    calls. All other figures leave out these calls.
    """

    calls: int = 0
    replayed_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    estimated_cost: float | None = None
    calls_without_price: int | None = None
    llm_seconds: float | None = None

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON, without unknown figures."""
        return without_none(**asdict(self))


def figures_of(calls: Iterable[LLMInteraction]) -> Figures:
    """Sum the figures of calls."""
    all_calls = [*calls]
    calls = made_calls(all_calls)
    costs, without_price = Costs(), 0
    for call in calls:
        cost = cost_of(call)
        costs.add(cost)
        without_price += lacks_price(call, cost)
    all_counts = [*filter(None, map(counts_of, calls))]
    total_cost = estimated_cost = None
    if costs.stated_calls or costs.estimated_calls:
        total_cost = round(costs.stated + costs.estimated, 9)
    if costs.estimated_calls:
        estimated_cost = round(costs.estimated, 9)
    seconds = sum_known(call.duration_seconds for call in calls)
    if seconds is not None:
        seconds = round(seconds, 6)
    return Figures(
        calls=len(calls),
        replayed_calls=len(all_calls) - len(calls) or None,
        input_tokens=sum_known(counts.prompt for counts in all_counts),
        output_tokens=sum_known(counts.completion for counts in all_counts),
        cost=total_cost,
        estimated_cost=estimated_cost,
        calls_without_price=without_price or None,
        llm_seconds=seconds,
    )


DifferenceKind = Literal[PartKind, "model", "missing"]
Model = str | None
_MAY_BE_UNKNOWN = {"success", "name"}
"""The members of a tool's result that some ways of recording leave out.

`_known_to_both` ignores such a member if only one result has it.
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two steps.

    `before` is the value in the first run, and `after` the value in the second run.

    In a difference of prompts, both values have only the new messages. The kind `missing` means that only one of the
    runs has the step.
    """

    kind: DifferenceKind
    before: Payload = None
    after: Payload = None

    def changes(self) -> list[ValueChange]:
        """Return the changes that turn `before` into `after`, each with its path."""
        if self.kind == "missing":
            return []
        return [*changes(self.before, self.after, _PATHS.get(self.kind, ""))]

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {"kind": self.kind, "changes": [change.to_dict() for change in self.changes()]}


_PATHS = {"tools": "tools", "parameters": "parameters", "tool_call": "tool_calls", "tool_result": "tool_results"}


@dataclass(frozen=True, slots=True)
class DiffSide:
    """A step or a call of one of the compared runs, the name of its agent, and its cost."""

    source: StepOrCall
    agent: str | None

    def __repr__(self) -> str:
        call = self.source.call
        known = without_none(step_number=self.source.step_number, interaction_id=call and call.interaction_id)
        return call_repr("DiffSide", known)

    @property
    def figures(self) -> Figures:
        """The figures of the step's call."""
        return figures_of(filter(None, [self.source.call]))

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        source = self.source
        interaction_id = replayed_from = None
        if source.call is not None:
            interaction_id, replayed_from = source.call.interaction_id, origin_of(source.call)
        return without_none(
            step_number=source.step_number,
            interaction_id=interaction_id,
            agent=self.agent,
            timestamp=source.timestamp,
            replayed_from=replayed_from,
            **self.figures.to_dict(),
        )


@dataclass(frozen=True, slots=True)
class DiffStep:
    """A pair of aligned steps, one of each run, or a step of only one run."""

    a: DiffSide | None
    b: DiffSide | None
    differences: tuple[Difference, ...] = ()

    def __repr__(self) -> str:
        kinds = [difference.kind for difference in self.differences]
        return call_repr("DiffStep", {"a": self.a, "b": self.b, "differences": kinds})

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {
            "a": self.a and self.a.to_dict(),
            "b": self.b and self.b.to_dict(),
            "differences": [difference.to_dict() for difference in self.differences],
        }


@dataclass(frozen=True, slots=True)
class DiffRun:
    """One of the compared runs: its task, its status, and its cost. `seconds` is the duration of the run."""

    trajectory_id: str | None
    task: str | None
    model: str | None
    status: str
    success: bool | None
    steps: int
    seconds: float | None
    figures: Figures
    origin: RunOrigin | None = None
    """The run of which this run is a replay or a fork."""

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
        members |= self.figures.to_dict()
        if self.origin is not None:
            members |= self.origin.in_metadata()
        return members


@dataclass(frozen=True, slots=True)
class TrajectoryDiff:
    """Two runs, aligned by step. `parts_at` is the index in `steps` of the first step that differs.

    `models` are the pairs of different models in aligned steps: the model of the first run, then the model of the
    second.
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
        """The first difference of the runs, or None if no step differs."""
        if self.parts_at is None:
            return None
        return self.steps[self.parts_at].differences[0]

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON."""
        return {
            "equal": self.equal,
            "parts_at": self.parts_at,
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "models": [{"a": of_a, "b": of_b} for of_a, of_b in self.models],
            "steps": [step.to_dict() for step in self.steps],
        }


def diff(a: Trajectory, b: Trajectory, *, ignore: Collection[Ignored] = ("ids", "times")) -> TrajectoryDiff:
    """Compare two runs step by step: their prompts, models, tools, parameters, answers, tool calls and tool results.

    `ignore` names the differences to ignore. By default these are ids of calls and answers, and times. A part of a
    step, such as "parameters" or "reasoning", can be ignored too. Raises ValueError for a name that is not in
    `Ignored`. If one model replaces another model throughout, the names of the models are not a difference. So the runs
    of two models differ first where the models act differently.

    Examples:
        >>> difference = diff(load("trajectories/run.json"), load("trajectories/other.json"))
        >>> difference.parts_at  # the index in `steps` of the first step that differs
        0
    """
    for run in (a, b):
        if not isinstance(run, Trajectory):
            raise TypeError(f"diff() takes two trajectories, such as load() returns, and was given {run!r}.")
    if isinstance(ignore, str) or {*ignore} - {*get_args(Ignored)}:
        raise ValueError(f"ignore is {ignore!r}, and must be a collection of some of {', '.join(get_args(Ignored))}")
    comparable = ComparableSteps(ignore)
    pairs = [*_aligned_steps(comparable.of(a), comparable.of(b))]
    models = [*filter(None, (_models(*pair) for pair in pairs))]
    compares_models = "model" not in ignore and not _are_renamed(models)
    agents_of_a, agents_of_b = run_agents_of(a), run_agents_of(b)
    steps = tuple(
        DiffStep(
            _side(of_a, agents_of_a),
            _side(of_b, agents_of_b),
            (*_differences(of_a, of_b, compares_models=compares_models),),
        )
        for of_a, of_b in pairs
    )
    parts_at = next((number for number, step in enumerate(steps) if step.differences), None)
    different = dict.fromkeys((of_a, of_b) for of_a, of_b in models if of_a != of_b)
    return TrajectoryDiff(DiffRun.of(a), DiffRun.of(b), steps, parts_at, (*different,))


def _are_renamed(pairs: Collection[tuple[Model, Model]]) -> bool:
    """Whether each model of the first run is always paired with the same model of the second, and the other way round.

    Runs of two models are compared to see what the models did, so a different name alone is not a difference.
    """
    distinct = {*pairs}
    return len({of_a for of_a, _ in distinct}) == len(distinct) == len({of_b for _, of_b in distinct})


def _side(step: ComparableStep | None, agents: RunAgents) -> DiffSide | None:
    if step is None:
        return None
    return DiffSide(step.source, agents.of_part(step.source).name)


def _models(a: ComparableStep | None, b: ComparableStep | None) -> tuple[Model, Model] | None:
    """Return the models of two steps, or None if one of the steps has no call."""
    if a is None or b is None or a.source.call is None or b.source.call is None:
        return None
    return a.source.call.model, b.source.call.model


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
    """Return two values without the members of `_MAY_BE_UNKNOWN` that only one of the values has.

    Such a member is not a difference.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        unknown = _MAY_BE_UNKNOWN & (before.keys() ^ after.keys())
        known = ({name: value for name, value in each.items() if name not in unknown} for each in (before, after))
        return next(known), next(known)
    if isinstance(before, list) and isinstance(after, list) and before and len(before) == len(after):
        pairs = [_known_to_both(*pair) for pair in zip(before, after, strict=True)]
        return [first for first, _ in pairs], [second for _, second in pairs]
    return before, after


Pair = tuple[ComparableStep | None, ComparableStep | None]


def _aligned_steps(a: Sequence[ComparableStep], b: Sequence[ComparableStep]) -> Iterator[Pair]:
    """Pair the steps of two runs, in order.

    Two steps with the same answer and the same tool calls are a pair. The other steps between two such pairs are paired
    by position. A step without a partner is paired with None.
    """
    position = 0
    for start, end, now, until in changed_ranges([step.key for step in a], [step.key for step in b]):
        yield from zip(a[position:start], b[now - (start - position) : now], strict=True)
        yield from zip_longest(a[start:end], b[now:until])
        position = end
    yield from zip(a[position:], b[len(b) - (len(a) - position) :], strict=True)
