"""Reading ATIF: a document of the Agent Trajectory Interchange Format, of any version 1, as a `Trajectory`.

An agent step is an LLM interaction; what stands before it is what the model saw. Sub-agents are interactions of their
own agent, in the order of time. What a view of ours put into `extra` is taken back from there, so that a run keeps its
ids, times, finish reasons and token counts on the way out and back. What has no place in the values is kept beside them
(`extra_members.py`). Images stay references to files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import cast, get_args

from trace_recorder.derive.steps import derive_steps
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.atif import extra_members as members
from trace_recorder.imports.atif.steps import Reading, Source, error_of
from trace_recorder.imports.atif.tool_steps import tool_steps
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload, ToolResult, without_none
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import AgentStep, Gap, Reward, Status, Trajectory

_PREFIX = "ATIF-v"


def is_atif(document: Payload) -> bool:
    """Whether a document says that it is ATIF."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    return isinstance(version, str) and version.startswith(_PREFIX)


def from_atif(document: Mapping[str, Payload], name: str) -> Trajectory:
    """Make a trajectory of an ATIF document; `name` is for messages. Raises TrajectoryFormatError."""
    version = document["schema_version"]
    if not version.startswith(f"{_PREFIX}1."):
        raise TrajectoryFormatError(f"{name} is {version}, and this trace_recorder reads ATIF-v1. Install a newer one.")
    try:
        return _trajectory(document)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise TrajectoryFormatError(f"{name} is a damaged ATIF document: {type(error).__name__}: {error}") from error


def _trajectory(document: Mapping[str, Payload]) -> Trajectory:
    extra = document.get("extra") or {}
    model = extra.get("model") or document["agent"].get("model_name")
    readings = [*_readings(document)]
    interactions = _in_time(readings)
    steps = [*_steps(interactions)]
    if tools := [*tool_steps(document)]:
        ordered = sorted([*tools, *steps], key=lambda step: _instant(step.timestamp))
        numbers = count(1)
        steps = [replace(step, step_number=next(numbers)) if step.derived else step for step in ordered]
    stated = extra.get("status")
    status = cast(Status, stated) if stated in get_args(Status) and stated != "running" else "unknown"
    begin, end = (None, None) if stated else _span(document["steps"])
    return Trajectory(
        trajectory_id=document.get("session_id") or document.get("trajectory_id"),
        status=status,
        model=model,
        start_time=extra.get("start_time") or begin,
        end_time=extra.get("end_time") or end,
        **{name: extra.get(name) for name in ("task", "success", "final_result", "provider", "max_steps")},
        execution_time=extra.get("execution_time"),
        error=error_of(extra.get("error")),
        metadata={**(extra.get("metadata") or {}), **members.as_kept(_kept(readings, model))},
        annotations=extra.get("annotations") or {},
        rewards=tuple(Reward(**reward) for reward in extra.get("rewards") or ()),
        metrics={**members.stated_totals(document), **metrics_of(interactions, steps)},
        llm_interactions=interactions,
        agent_steps=steps,
        gaps=tuple(Gap(**gap) for gap in extra.get("gaps") or ()),
    )


def _span(steps: Iterable[Mapping[str, Payload]]) -> tuple[str | None, str | None]:
    """When the first step was and when the last; where that is one moment, the end is not known."""
    timestamps = [step["timestamp"] for step in steps if step.get("timestamp")]
    if not timestamps:
        return None, None
    return timestamps[0], timestamps[-1] if timestamps[-1] != timestamps[0] else None


def _readings(document: Mapping[str, Payload], parent: Reading | None = None) -> Iterator[Reading]:
    """Read a trajectory, and those of its sub-agents and theirs."""
    subs = document.get("subagent_trajectories") or ()
    embedded = frozenset(sub["trajectory_id"] for sub in subs if sub.get("trajectory_id"))
    own = Reading(document, embedded, parent)
    own.calls = [*own.read()]
    yield own
    for sub in subs:
        yield from _readings(sub, own)


def _in_time(readings: Sequence[Reading]) -> list[LLMInteraction]:
    """The calls of all agents, in the order of time where that is known, each with an id of its own."""
    own = [(reading, one) for reading in readings for one in reading.calls]
    if all(one.timestamp for _, one in own):
        own.sort(key=lambda pair: _instant(pair[1].timestamp))
    seen: set[str] = set()
    named: list[LLMInteraction] = []
    for number, (reading, one) in enumerate(own, start=1):
        identity = one.interaction_id if one.interaction_id not in {"", *seen} else f"atif_{number}"
        seen.add(identity)
        named.append(replace(one, interaction_id=identity))
        if reading.calls[0] is one:
            reading.first = identity
    return named


def _instant(timestamp: str) -> datetime:
    """A time by which others are sorted, however it is written; one without an offset is taken for UTC."""
    at = datetime.fromisoformat(timestamp)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _kept(readings: Sequence[Reading], model: str | None) -> dict[str, Payload]:
    """What the trajectories say beyond the values: the root's, and of its sub-agents by the id of their first call."""
    root, *subs = readings
    of_subs = {sub.first: kept for sub in subs if sub.calls and (kept := sub.kept(root.document, model))}
    return root.kept(root.document, model) | without_none(subagents=of_subs or None)


def _steps(interactions: Sequence[LLMInteraction]) -> Iterator[AgentStep]:
    """The steps that the agent recorded itself; where it recorded none, one for each call."""
    derived = derive_steps(interactions)
    sources = [one.source for one in interactions if isinstance(one.source, Source)]
    if not any(source.told for source in sources):
        yield from (replace(step, tool_results=_observed(step)) for step in derived)
        return
    recorded = [one for step in derived for one in _recorded(step)]
    dated = all(step.timestamp for step in recorded)
    yield from sorted(recorded, key=lambda step: _instant(step.timestamp)) if dated else recorded


def _recorded(derived: AgentStep) -> Iterator[AgentStep]:
    """The steps that the agent recorded of a call; what its tools gave stands with the first."""
    source = derived.interaction.source if derived.interaction else None
    for number, told in enumerate(source.told if isinstance(source, Source) else ()):
        first = number == 0
        yield replace(
            derived,
            step_number=told.get("step_number", derived.step_number),
            timestamp=told.get("timestamp", derived.timestamp),
            state=told.get("state", derived.state),
            reflection=told.get("reflection"),
            error=told.get("error"),
            duration_seconds=told.get("duration_seconds"),
            tool_calls=derived.tool_calls if first else (),
            tool_results=_observed(derived) if first else (),
            derived=False,
            extra={name: value for name, value in told.items() if name not in _TOLD},
        )


_TOLD = ("step_number", "timestamp", "state", "reflection", "error", "duration_seconds")


def _observed(step: AgentStep) -> tuple[ToolResult, ...]:
    """What the tools of a step gave: it stands in the very step that called them."""
    source = step.interaction.source if step.interaction else None
    names = {call.call_id: call.name for call in step.tool_calls}
    found = source.observed if isinstance(source, Source) else ()
    return tuple(replace(result, name=names.get(result.call_id)) for result in found)
