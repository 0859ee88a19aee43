"""Reads a document of ATIF, the Agent Trajectory Interchange Format, of any version 1.x, as a `Trajectory`.

An agent step becomes an LLM interaction, and the steps before it become its prompt. The steps of a sub-agent become
interactions of that sub-agent. If every interaction has a time, the interactions are in order of time. Members of
`extra` that our own view wrote are read back. So a run that was exported as ATIF keeps its ids, times, finish reasons
and token counts. Members for which the classes of `values/` have no field are kept under the name `atif`
(`members.py`). Images stay references to files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar, get_args

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.atif import members
from trace_recorder.formats.atif.members import read_atif_error, tool_steps
from trace_recorder.formats.atif.own_members import RECORDED_STEP, values_of_connections
from trace_recorder.formats.atif.reading_steps import AtifSource, TrajectoryReader
from trace_recorder.formats.foreign_runs.from_trajectory import foreign_run_of
from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.reading.document import read_value
from trace_recorder.reading.steps import step_of
from trace_recorder.values.llm_interaction import LLMInteraction, Websocket
from trace_recorder.values.messages import MCPServer, Payload, ToolResult, without_none
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep, Gap, Removal, Reward, Status, Trajectory

Value = TypeVar("Value")
_PREFIX = "ATIF-v"


def is_atif(document: Payload) -> bool:
    """Return whether a document says that it is ATIF."""
    version = as_dict(document).get("schema_version")
    return isinstance(version, str) and version.startswith(_PREFIX)


def from_atif(document: Mapping[str, Payload], name: str) -> Trajectory:
    """Read an ATIF document.

    Error messages name the document `name`. Raises TrajectoryFormatError if the document is damaged, or of another
    version than 1.x.
    """
    version = document["schema_version"]
    if not version.startswith(f"{_PREFIX}1."):
        raise TrajectoryFormatError(
            f"{name} is {version}, and this trace_recorder reads ATIF-v1. Install a newer trace_recorder to read it."
        )
    try:
        return _trajectory(document)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise TrajectoryFormatError(f"{name} is a damaged ATIF document: {type(error).__name__}: {error}") from error


_OF_RUN = ("parent", "session", "task", "success", "final_result", "provider", "max_steps")
"""The facts of the run that are in `extra` under their own names."""


def _trajectory(document: Mapping[str, Payload]) -> Trajectory:
    extra = document.get("extra") or {}
    model = extra.get("model") or document["agent"].get("model_name")
    readers = [*_readers(document)]
    interactions = _in_order_of_time(readers)
    steps = _with_tool_steps([*_steps(interactions)], [*tool_steps(document)])
    status: Payload = extra.get("status")
    times: Iterable[str] = ()
    if not status:
        times = [step["timestamp"] for step in document["steps"] if step.get("timestamp")]
    start_time, end_time = _first_and_last(times)
    if status not in get_args(Status) or status == "running":
        status = "unknown"
    return Trajectory(
        trajectory_id=document.get("session_id") or document.get("trajectory_id"),
        status=status,
        model=model,
        start_time=extra.get("start_time") or start_time,
        end_time=extra.get("end_time") or end_time,
        **{name: extra.get(name) for name in _OF_RUN},
        execution_time=extra.get("execution_time"),
        error=read_atif_error(extra.get("error")),
        metadata={**(extra.get("metadata") or {}), **members.as_kept(_extra_members(readers, model))},
        annotations=extra.get("annotations") or {},
        rewards=_values(Reward, extra.get("rewards")),
        metrics={**members.stated_totals(document), **metrics_of(interactions, steps)},
        llm_interactions=interactions,
        agent_steps=steps,
        gaps=_values(Gap, extra.get("gaps")),
        removals=tuple(read_value(Removal, one) for one in extra.get("removals") or ()),
        mcp_servers=values_of_connections(MCPServer, extra.get("mcp_servers")),
        websockets=values_of_connections(Websocket, extra.get("websockets")),
    )


def _values(kind: Callable[..., Value], documents: Payload) -> tuple[Value, ...]:
    return tuple(kind(**document) for document in documents or ())


def _with_tool_steps(steps: list[AgentStep], tools: list[AgentStep]) -> list[AgentStep]:
    """Return the steps and the tool steps in the order of time.

    Steps that the agent did not record are numbered again.
    """
    if not tools:
        return steps
    ordered = sorted([*tools, *steps], key=lambda step: _parsed_time(step.timestamp))
    derived = [number for number, step in enumerate(ordered) if step.derived]
    for step_number, number in enumerate(derived, start=1):
        ordered[number] = replace(ordered[number], step_number=step_number)
    return ordered


def _first_and_last(times: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the first and the last time. If the two are equal, return None instead of the second."""
    first = last = None
    for time in times:
        first = first or time
        last = time
    if last == first:
        last = None
    return first, last


def _readers(document: Mapping[str, Payload], parent: TrajectoryReader | None = None) -> Iterator[TrajectoryReader]:
    """Yield the reader of a trajectory, and the readers of its sub-agents at any depth, each with its calls."""
    subs = document.get("subagent_trajectories") or ()
    embedded = frozenset(sub["trajectory_id"] for sub in subs if sub.get("trajectory_id"))
    reader = TrajectoryReader(document, embedded, parent)
    reader.calls = [*reader.read()]
    yield reader
    for sub in subs:
        yield from _readers(sub, reader)


def _in_order_of_time(readers: Sequence[TrajectoryReader]) -> list[LLMInteraction]:
    """Return the calls of all agents, each with an id that no other call has.

    If every call has a time, the calls are in order of time.
    """
    calls = [(reader, interaction) for reader in readers for interaction in reader.calls]
    if all(interaction.timestamp for _, interaction in calls):
        calls.sort(key=lambda pair: _parsed_time(pair[1].timestamp))
    known: set[str] = set()
    identified: list[LLMInteraction] = []
    for number, (reader, interaction) in enumerate(calls, start=1):
        identity = interaction.interaction_id
        if not identity or identity in known:
            identity = f"atif_{number}"
        known.add(identity)
        identified.append(replace(interaction, interaction_id=identity))
        if reader.calls[0] is interaction:
            reader.first_call_id = identity
    return identified


def _parsed_time(timestamp: str) -> datetime:
    """Parse a time for sorting. A time without an offset is taken as UTC."""
    time = datetime.fromisoformat(timestamp)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time


def _extra_members(readers: Sequence[TrajectoryReader], model: str | None) -> dict[str, Payload]:
    """Return the kept members (`members.py`) of the main agent's trajectory.

    The member `subagents` has the kept members of each sub-agent, by the id of the sub-agent's first call.
    """
    root, *subs = readers
    members_of_subs = {}
    for sub in subs:
        kept = sub.calls and sub.extra_members(root.document, model)
        if kept:
            members_of_subs[sub.first_call_id] = kept
    return root.extra_members(root.document, model) | without_none(subagents=members_of_subs or None)


def _steps(interactions: Sequence[LLMInteraction]) -> Iterator[AgentStep]:
    """Yield the steps that the agent recorded itself. If it recorded none, yield a step for each call."""
    decisions = [interaction for interaction in interactions if is_turn(interaction.api)]
    derived = [step_of(number, interaction, {}) for number, interaction in enumerate(decisions, start=1)]
    sources = [interaction.source for interaction in interactions if isinstance(interaction.source, AtifSource)]
    if not any(source.recorded_steps for source in sources):
        yield from (replace(step, tool_results=_tool_results(step)) for step in derived)
        return
    recorded = [interaction for step in derived for interaction in _recorded(step)]
    if all(step.timestamp for step in recorded):
        recorded.sort(key=lambda step: _parsed_time(step.timestamp))
    yield from recorded


def _recorded(derived: AgentStep) -> Iterator[AgentStep]:
    """Yield the steps that the agent recorded for a call. The first step has the results of the call's tools."""
    source = _source_of(derived)
    if source is None:
        return
    tool_calls, tool_results = derived.tool_calls, _tool_results(derived)
    for recorded in source.recorded_steps:
        yield replace(
            derived,
            step_number=recorded.get("step_number", derived.step_number),
            timestamp=recorded.get("timestamp", derived.timestamp),
            state=recorded.get("state", derived.state),
            reflection=recorded.get("reflection"),
            error=recorded.get("error"),
            duration_seconds=recorded.get("duration_seconds"),
            tool_calls=tool_calls,
            tool_results=tool_results,
            derived=False,
            extra={name: value for name, value in recorded.items() if name not in RECORDED_STEP},
        )
        tool_calls, tool_results = (), ()


def _source_of(step: AgentStep) -> AtifSource | None:
    if step.interaction is not None and isinstance(step.interaction.source, AtifSource):
        return step.interaction.source
    return None


def _tool_results(step: AgentStep) -> tuple[ToolResult, ...]:
    """Return the results of a step's tools. ATIF writes results into the step that called the tools."""
    source = _source_of(step)
    if source is None:
        return ()
    names = {call.call_id: call.name for call in step.tool_calls}
    return tuple(replace(result, name=names.get(result.call_id)) for result in source.observed)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a document."""
    path = source.path
    yield foreign_run_of(from_atif(source.document, str(path)), "atif", path.name.partition(".")[0])
