"""What an ATIF document states that the values have no place for. It is kept under the name `atif`.

For a trajectory it is in the run's metadata, for a message in its `extra`, for an answer in the response's `extra`. The
reader (`document.py`) puts it there, and the view (`views/atif/`) puts it back where it was. What the view generates
from the values is not kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from trace_recorder.dialects.json_access import as_dict
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.trajectory import Trajectory

EXTRA_KEY = DIALECT = "atif"
UNKNOWN_VERSION = "unknown"

_TOTALS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cache_read_input_tokens",
    "cost_usd": "cost",
}
"""ATIF's names of token counts and costs, and ours."""
_OF_RUN = frozenset({**Trajectory().head(), **Trajectory().tail("inline")})
_OF_AGENT = frozenset({"agent_id", "parent_agent_id", "built_in_tools"})
_DERIVED = ("start_time", "end_time", "model", "status")
"""What the reader works out about a run if its document does not state it."""
_OF_STEP = frozenset({"step_id", "source", "message", "reasoning_content", "tool_calls", "observation"})
_OF_CALL = frozenset(
    (
        *("interaction_id", "requested_at", "step_number", "provider", "api", "model_asked_for", "response_id"),
        *("finish_reason", "other_choices", "choice_extra", "response_extra", "parameters", "duration_seconds"),
        *("time_to_first_token_seconds", "stream", "complete", "ended_by", "error", "attempts", "agent_steps"),
        "replayed_from",
    )
)
_OF_FOREIGN_CALL = frozenset({"interaction_id", "api", "model_asked_for", "parameters", "response_extra"})
_OF_RESULT = frozenset({"success", "error", "result", "duration_seconds"})


def kept_in(extra: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return what was kept in an `extra`, or in a run's metadata."""
    return as_dict(extra.get(EXTRA_KEY))


def as_kept(members: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return an object to merge into an `extra`, with the members under `EXTRA_KEY`.

    Without members, the object is empty.
    """
    return {EXTRA_KEY: dict(members)} if members else {}


def of_message(step: Mapping[str, Payload], follows: str | None) -> dict[str, Payload]:
    """Return the extra members of a step that is no call. `follows` is when the next request was sent."""
    left = {name: value for name, value in step.items() if name not in _OF_STEP and value is not None}
    if left.get("timestamp") == follows:
        left.pop("timestamp", None)
    return left


def of_call(step: Mapping[str, Payload], refs: Sequence[Payload]) -> dict[str, Payload]:
    """Return the extra members of a call's step. `refs` are results that are only references."""
    extra, count = as_dict(step.get("extra")), step.get("llm_call_count")
    of_metrics = as_dict(as_dict(step.get("metrics")).get("extra"))
    return without_none(
        extra=_without(extra, written_by_view(extra)) or None,
        metrics_extra=_without(of_metrics, frozenset({"usage"})) or None,
        llm_call_count=None if count == 1 else count,
        refs=[*refs] or None,
    )


def of_result(result: Mapping[str, Payload], embedded: frozenset[str], *, in_step: bool) -> dict[str, Payload]:
    """Return the extra members of a result: external references, and in whose step it is if it belongs to no call."""
    alone = in_step and result.get("source_call_id") is None
    refs = external_references(result, embedded)
    return without_none(
        extra=_without(as_dict(result.get("extra")), _OF_RESULT) or None,
        subagent_trajectory_ref=refs or None,
        in_step=alone or None,
    )


def external_references(result: Mapping[str, Payload], embedded: frozenset[str]) -> list[Payload]:
    """Return a result's references to trajectories that are not in the document."""
    return [ref for ref in result.get("subagent_trajectory_ref") or () if ref.get("trajectory_id") not in embedded]


def of_document(
    document: Mapping[str, Payload], *, root: Mapping[str, Payload], model: str | None, called: bool
) -> dict[str, Payload]:
    """Return the extra members of a trajectory. `called` is whether any of its steps is a call."""
    identity, session = document.get("trajectory_id"), document.get("session_id")
    is_root = document is root
    extra = as_dict(document.get("extra"))
    remaining = _without(extra, _OF_RUN if is_root else frozenset())
    totals = document.get("final_metrics")
    return without_none(
        session_id=None if is_root or session == root.get("session_id") else session,
        trajectory_id=None if is_root and identity == session else identity,
        agent=_of_agent(document["agent"], model, called=called) or None,
        notes=document.get("notes"),
        final_metrics=None if totals == _totals_of(document) else totals,
        continued_trajectory_ref=document.get("continued_trajectory_ref"),
        extra=remaining or None,
        derived=(_derived(extra) if is_root else None) or None,
    )


def _derived(extra: Mapping[str, Payload]) -> list[str]:
    """Return what the reader works out about a run whose own view did not write the document."""
    return [] if "status" in extra else [name for name in _DERIVED if name not in extra]


def _of_agent(agent: Mapping[str, Payload], model: str | None, *, called: bool) -> dict[str, Payload]:
    tools = agent.get("tool_definitions")
    return without_none(
        name=None if called else agent.get("name"),
        version=None if agent.get("version") == UNKNOWN_VERSION else agent.get("version"),
        model_name=None if agent.get("model_name") == model else agent.get("model_name"),
        tool_definitions=tools if tools and not (called and all(map(_is_plain, tools))) else None,
        extra=_without(as_dict(agent.get("extra")), _OF_AGENT) or None,
    )


def _is_plain(tool: Payload) -> bool:
    """Whether a declaration contains only what a tool's value holds."""
    function = as_dict(as_dict(tool).get("function"))
    return as_dict(tool).keys() == {"type", "function"} and function.keys() <= {"name", "description", "parameters"}


def written_by_view(extra: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return what our view wrote into the `extra` of a step. This is little if the step came from another tool."""
    if "interaction_id" not in extra:
        return {}
    written = _OF_CALL if extra.get("api") != DIALECT else _OF_FOREIGN_CALL
    return {name: value for name, value in extra.items() if name in written}


def totals(steps: Iterable[Mapping[str, Payload]]) -> dict[str, Payload]:
    """Sum up the metrics of steps, as the `final_metrics` of a trajectory."""
    steps = list(steps)
    summed: dict[str, Payload] = {}
    for name in _TOTALS:
        stated = [count for step in steps if (count := as_dict(step.get("metrics")).get(name)) is not None]
        if stated:
            summed[f"total_{name}"] = sum(stated)
    return summed | {"total_steps": len(steps)}


def with_costs(summed: dict[str, Payload], subs: Iterable[Mapping[str, Payload]]) -> dict[str, Payload]:
    """Add the costs of sub-agents to those of their parent."""
    costs = [cost for sub in subs if (cost := as_dict(sub.get("final_metrics")).get("total_cost_usd")) is not None]
    return summed | ({"total_cost_usd": summed.get("total_cost_usd", 0) + sum(costs)} if costs else {})


def _totals_of(document: Mapping[str, Payload]) -> dict[str, Payload]:
    return with_costs(totals(document["steps"]), document.get("subagent_trajectories") or ())


def stated_totals(document: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the totals that a document states, under the names of a run's metrics."""
    stated = as_dict(document.get("final_metrics"))
    return without_none(**{written_by_view: stated.get(f"total_{name}") for name, written_by_view in _TOTALS.items()})


def effort_of(parameters: Mapping[str, Payload]) -> str | float | None:
    """Return the reasoning effort that a request asks for, in any dialect."""
    thinking = as_dict(as_dict(parameters.get("generationConfig")).get("thinkingConfig"))
    asked = (
        parameters.get("reasoning_effort"),
        as_dict(parameters.get("reasoning")).get("effort"),
        as_dict(parameters.get("output_config")).get("effort"),
        thinking.get("thinkingLevel"),
    )
    return next((one for one in asked if isinstance(one, str | int | float) and not isinstance(one, bool)), None)


def _without(members: Mapping[str, Payload], names: Container[str]) -> dict[str, Payload]:
    return {name: value for name, value in members.items() if name not in names}
