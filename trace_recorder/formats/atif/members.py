"""Reads parts of ATIF for `reading.py` and `reading_steps.py`: kept members, answers, and tool steps.

The classes of `values/` have no field for some members of an ATIF document. These are the kept members. Kept members
are stored under the name `atif`. A trajectory's members are in the run's metadata, a message's in the message's
`extra`, and an answer's in the response's `extra`. The reader (`reading.py`) puts them there, and the view
(`writing.py`) writes them into ATIF again. Members that the view can generate are not kept.

Only ATIF documents that our view wrote have tool steps. A tool step is the execution of a tool that no model asked for,
and whose result no model saw.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import cast

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.formats.atif.own_members import (
    AGENT_EXTRA,
    CALL_EXTRA,
    RESULT_EXTRA,
    SERVER_CALLS,
    TOOL_STEP_FLAG,
    UNNAMED_AGENT,
    CallExtra,
    extra_of,
    values_of_connections,
)
from trace_recorder.values.llm_interaction import ErrorInfo
from trace_recorder.values.messages import (
    Choice,
    LLMResponse,
    MCPCall,
    Message,
    Payload,
    ToolCall,
    ToolResult,
    Usage,
    without_none,
)
from trace_recorder.values.trajectory import AgentStep, Trajectory

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
_OF_OWN_VIEW = frozenset({"parent", "session", "removals", "mcp_servers", "websockets"})
"""Members of a run that a document has only if the run has them. Another tool may have members of these names."""
_DERIVED = ("start_time", "end_time", "model", "status")
"""Facts of a run that the reader works out if the document does not state them."""
_OF_STEP = frozenset({"step_id", "source", "message", "reasoning_content", "tool_calls", "observation"})
_OF_FOREIGN_CALL = frozenset({"interaction_id", "api", "model_asked_for", "parameters", "response_extra"})


def kept_in(extra: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the members that were kept in an `extra`, or in a run's metadata."""
    return as_dict(extra.get(EXTRA_KEY))


def as_kept(members: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return an object in which `EXTRA_KEY` has the members, to be joined with an `extra`.

    Return {} if there are no members.
    """
    return {EXTRA_KEY: dict(members)} if members else {}


def of_message(step: Mapping[str, Payload], next_request: str | None) -> dict[str, Payload]:
    """Return the kept members of a step that is not a call.

    The step's time is left out if the time equals `next_request`, the time of the next request.
    """
    remaining = {name: value for name, value in step.items() if name not in _OF_STEP and value is not None}
    if remaining.get("timestamp") == next_request:
        remaining.pop("timestamp", None)
    return remaining


def of_call(step: Mapping[str, Payload], refs: Sequence[Payload]) -> dict[str, Payload]:
    """Return the kept members of a call's step.

    `refs` are the step's results that have references to trajectories but no content.
    """
    extra = as_dict(step.get("extra"))
    of_metrics = as_dict(as_dict(step.get("metrics")).get("extra"))
    kept = without_none(
        extra=_without(extra, written_by_view(extra)) or None,
        metrics_extra=_without(of_metrics, {"usage"}) or None,
        llm_call_count=step.get("llm_call_count"),
        refs=[*refs] or None,
    )
    if kept.get("llm_call_count") == 1:
        del kept["llm_call_count"]
    return kept


def of_result(result: Mapping[str, Payload], embedded: frozenset[str], *, in_step: bool) -> dict[str, Payload]:
    """Return the kept members of a result, with its references to trajectories outside of the document.

    `in_step` is True if a step of the agent has the result. If such a result names no tool call, the kept members
    include `in_step`.
    """
    names_no_call = in_step and result.get("source_call_id") is None
    refs = external_references(result, embedded)
    return without_none(
        extra=_without(as_dict(result.get("extra")), RESULT_EXTRA) or None,
        subagent_trajectory_ref=refs or None,
        in_step=names_no_call or None,
    )


def external_references(result: Mapping[str, Payload], embedded: frozenset[str]) -> list[Payload]:
    """Return a result's references to trajectories that are not in the document."""
    return [ref for ref in result.get("subagent_trajectory_ref") or () if ref.get("trajectory_id") not in embedded]


def of_document(
    document: Mapping[str, Payload], *, root: Mapping[str, Payload], model: str | None, called: bool
) -> dict[str, Payload]:
    """Return the kept members of a trajectory. `called` is True if one of the trajectory's steps is a call."""
    is_root = document is root
    session_id: Payload = document.get("session_id")
    trajectory_id: Payload = document.get("trajectory_id")
    extra = as_dict(document.get("extra"))
    derived: list[str] = []
    if is_root:
        if trajectory_id == session_id:
            trajectory_id = None
        session_id = None
        # A document with a status was written by our own view, which writes all known facts. So no fact was derived.
        if "status" not in extra:
            derived = [name for name in _DERIVED if name not in extra]
        else:
            extra = _without(extra, _OF_OWN_VIEW)
        extra = _without(extra, _OF_RUN)
    elif session_id == root.get("session_id"):
        session_id = None
    final_metrics: Payload = document.get("final_metrics")
    if final_metrics == with_costs(totals(document["steps"]), document.get("subagent_trajectories") or ()):
        final_metrics = None
    return without_none(
        session_id=session_id,
        trajectory_id=trajectory_id,
        agent=_of_agent(document["agent"], model, called=called) or None,
        notes=document.get("notes"),
        final_metrics=final_metrics,
        continued_trajectory_ref=document.get("continued_trajectory_ref"),
        extra=extra or None,
        derived=derived or None,
    )


def _of_agent(agent: Mapping[str, Payload], model: str | None, *, called: bool) -> dict[str, Payload]:
    kept = without_none(
        name=agent.get("name"),
        version=agent.get("version"),
        model_name=agent.get("model_name"),
        tool_definitions=agent.get("tool_definitions") or None,
        extra=_without(as_dict(agent.get("extra")), AGENT_EXTRA) or None,
    )
    if called:
        kept.pop("name", None)
        if all(map(_is_plain, kept.get("tool_definitions", ()))):
            kept.pop("tool_definitions", None)
    if kept.get("version") == UNKNOWN_VERSION:
        del kept["version"]
    if kept.get("model_name") == model:
        kept.pop("model_name", None)
    return kept


def _is_plain(tool: Payload) -> bool:
    """Return whether a tool's declaration has only members that our class `Tool` has."""
    function = as_dict(as_dict(tool).get("function"))
    return as_dict(tool).keys() == {"type", "function"} and function.keys() <= {"name", "description", "parameters"}


def written_by_view(extra: Mapping[str, Payload]) -> CallExtra:
    """Return the members of a step's `extra` that our view wrote.

    For calls that were imported from ATIF, the view writes only a few of these members.
    """
    if "interaction_id" not in extra:
        return {}
    names = CALL_EXTRA
    if extra.get("api") == DIALECT:
        names = _OF_FOREIGN_CALL
    return cast("CallExtra", {name: value for name, value in extra.items() if name in names})


def totals(steps: Iterable[Mapping[str, Payload]]) -> dict[str, Payload]:
    """Return the sums of the metrics of steps, in the form of a trajectory's `final_metrics`."""
    steps = list(steps)
    summed: dict[str, Payload] = {}
    for name in _TOTALS:
        counts = [count for step in steps if (count := as_dict(step.get("metrics")).get(name)) is not None]
        if counts:
            summed[f"total_{name}"] = sum(counts)
    return summed | {"total_steps": len(steps)}


def with_costs(summed: dict[str, Payload], subs: Iterable[Mapping[str, Payload]]) -> dict[str, Payload]:
    """Add the total costs of sub-agents to `summed`, the totals of their parent."""
    costs = [cost for sub in subs if (cost := as_dict(sub.get("final_metrics")).get("total_cost_usd")) is not None]
    if not costs:
        return summed
    return summed | {"total_cost_usd": summed.get("total_cost_usd", 0) + sum(costs)}


def stated_totals(document: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the totals that a document states, under the names of a run's metrics."""
    final_metrics = as_dict(document.get("final_metrics"))
    return without_none(**{our_name: final_metrics.get(f"total_{name}") for name, our_name in _TOTALS.items()})


def effort_of(parameters: Mapping[str, Payload]) -> str | float | None:
    """Return the reasoning effort that a request asks for, in any dialect."""
    thinking = as_dict(as_dict(parameters.get("generationConfig")).get("thinkingConfig"))
    efforts = (
        parameters.get("reasoning_effort"),
        as_dict(parameters.get("reasoning")).get("effort"),
        as_dict(parameters.get("output_config")).get("effort"),
        thinking.get("thinkingLevel"),
    )
    for effort in efforts:
        if isinstance(effort, str | int | float) and not isinstance(effort, bool):
            return effort
    return None


def _without(members: Mapping[str, Payload], names: Container[str]) -> dict[str, Payload]:
    return {name: value for name, value in members.items() if name not in names}


def is_tool_step(step: Mapping[str, Payload]) -> bool:
    """Return whether our view marked a step as a tool step."""
    return step.get("llm_call_count") == 0 and extra_of(step).get(TOOL_STEP_FLAG) is True


def tool_steps(document: Mapping[str, Payload]) -> Iterator[AgentStep]:
    """Yield the tool steps of the main agent and of its sub-agents, each with the step number 0."""
    for step in filter(is_tool_step, document["steps"]):
        yield _tool_step(step, document["agent"])
    for sub in document.get("subagent_trajectories") or ():
        yield from tool_steps(sub)


def _tool_step(step: Mapping[str, Payload], agent: Mapping[str, Payload]) -> AgentStep:
    calls = tuple(map(read_atif_call, step.get("tool_calls") or ()))
    names = {call.call_id: call.name for call in calls}
    results = (step.get("observation") or {}).get("results") or ()
    error = step["extra"].get("error")
    state = "calling_tool"
    if error:
        state = "error"
    return AgentStep(
        0,
        step["timestamp"],
        state,
        tool_calls=calls,
        tool_results=tuple(_result(result, names) for result in results),
        error=error,
        **agent_members(agent),
        derived=True,
    )


def agent_members(agent: Mapping[str, Payload]) -> dict[str, Payload]:
    """Return the name and the ids of a main agent or a sub-agent, as our view wrote them."""
    name, extra = agent.get("name"), extra_of(agent)
    if name == UNNAMED_AGENT:
        name = None
    return {"agent": name, "agent_id": extra.get("agent_id"), "parent_agent_id": extra.get("parent_agent_id")}


def read_atif_call(call: Mapping[str, Payload]) -> ToolCall:
    """Read a tool call."""
    extra = {**extra_of(call)}
    made_up = extra.pop("call_id_made_up", None) is True
    return ToolCall(call["tool_call_id"], call["function_name"], call["arguments"], made_up, extra)


def _result(result: Mapping[str, Payload], names: Mapping[str, str]) -> ToolResult:
    extra, call_id = extra_of(result), result["source_call_id"]
    value, error = extra.get("result", result.get("content")), None
    if extra.get("success") is False:
        value, error = None, extra.get("error") or result.get("content")
    return ToolResult(
        call_id,
        name=names.get(call_id),
        success=extra.get("success"),
        result=value,
        error=error,
        duration_seconds=extra.get("duration_seconds"),
        mcp=values_of_connections(MCPCall, extra.get(SERVER_CALLS)),
    )


def read_atif_response(
    step: Mapping[str, Payload], message: Message, extra: CallExtra, kept: Mapping[str, Payload]
) -> LLMResponse:
    """Read the answer of an agent step.

    `extra` has the step's members that our view wrote. `kept` has the step's kept members.
    """
    metrics = step.get("metrics") or as_dict(as_dict(extra.get("replayed_from")).get("metrics"))
    choice_extra = {
        **(extra.get("choice_extra") or {}),
        **without_none(token_ids=metrics.get("completion_token_ids")),
    }
    logprobs: list[float] | None = metrics.get("logprobs")
    if logprobs is not None:
        choice_extra["logprobs"] = {"content": [{"logprob": logprob} for logprob in logprobs]}
    prompt = without_none(prompt_token_ids=metrics.get("prompt_token_ids"))
    content = _content(message)
    choice = Choice(0, content, message.reasoning, message.tool_calls, extra.get("finish_reason"), extra=choice_extra)
    return LLMResponse(
        content,
        reasoning=message.reasoning,
        tool_calls=message.tool_calls,
        finish_reason=extra.get("finish_reason"),
        usage=_usage(metrics),
        model=step.get("model_name"),
        id=extra.get("response_id"),
        choices=(choice, *map(_choice, extra.get("other_choices") or ())),
        audio_end_ms=extra.get("audio_end_ms"),
        extra={**(extra.get("response_extra") or {}), **prompt, **kept},
    )


def _content(message: Message) -> str | None:
    """Return the texts of a message as one text, or None if the message has no text."""
    if isinstance(message.content, str):
        return message.content
    if isinstance(message.content, list) and message.content:
        return "".join(part.get("text") or "" for part in message.content)
    return None


def _choice(document: Mapping[str, Payload]) -> Choice:
    calls = tuple(manual.read_tool_call(call) for call in document.get("tool_calls") or ())
    return Choice(**{**document, "tool_calls": calls})


def _usage(metrics: Mapping[str, Payload]) -> Usage:
    """Return the provider's usage if our view kept it, and otherwise ATIF's own counts."""
    usage = (metrics.get("extra") or {}).get("usage")
    if isinstance(usage, dict):
        return Usage(**usage)
    counts = without_none(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        cache_read_input_tokens=metrics.get("cached_tokens"),
        cost=metrics.get("cost_usd"),
    )
    return Usage(**counts)


def read_atif_error(error: Payload) -> ErrorInfo | None:
    """Return an error that our view wrote, or None for any other value."""
    if not isinstance(error, dict):
        return None
    return ErrorInfo(str(error.get("type") or "error"), str(error.get("message") or ""), error.get("status"))
