"""Reading ATIF: a document of the Agent Trajectory Interchange Format, of any version 1, as a `Trajectory`.

An agent step is an LLM interaction; what stands before it is what the model saw. Sub-agents are interactions of their
own agent, in the order of time. What a view of ours put into `extra` is taken back from there, so that a run keeps its
ids, times, finish reasons and token counts on the way out and back. Images stay references to files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from trace_recorder.conversation import (
    NO_RESPONSE,
    Choice,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    known,
)
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.metrics import metrics_of
from trace_recorder.providers import by_hand
from trace_recorder.stepping import derive_steps
from trace_recorder.trajectory import AgentStep, Attempt, ErrorInfo, Gap, LLMInteraction, Reward, Status, Trajectory

_PREFIX = "ATIF-v"
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


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
    interactions = [*_interactions(document)]
    steps = [replace(step, tool_results=_observed(step)) for step in derive_steps(interactions)]
    stated = extra.get("status")
    status = cast(Status, stated) if stated in get_args(Status) and stated != "running" else "unknown"
    timestamps = [] if stated else [one["timestamp"] for one in document["steps"] if one.get("timestamp")]
    return Trajectory(
        trajectory_id=document.get("session_id") or document.get("trajectory_id"),
        status=status,
        model=extra.get("model") or document["agent"].get("model_name"),
        start_time=extra.get("start_time") or (timestamps[0] if timestamps else None),
        end_time=extra.get("end_time") or (timestamps[-1] if timestamps else None),
        **{name: extra.get(name) for name in ("task", "success", "final_result", "provider", "max_steps")},
        execution_time=extra.get("execution_time"),
        error=_error(extra.get("error")),
        metadata=extra.get("metadata") or {},
        annotations=extra.get("annotations") or {},
        rewards=tuple(Reward(**reward) for reward in extra.get("rewards") or ()),
        metrics=metrics_of(interactions, steps),
        llm_interactions=interactions,
        agent_steps=steps,
        gaps=tuple(Gap(**gap) for gap in extra.get("gaps") or ()),
    )


def _interactions(document: Mapping[str, Payload]) -> Iterator[LLMInteraction]:
    """The calls of the main agent and of its sub-agents, in the order of time where that is known."""
    name = document["agent"].get("name")
    own = [*_Reading(document, None if name == "agent" else name).calls()]
    subs = document.get("subagent_trajectories") or ()
    names = [sub["agent"].get("name") or f"subagent_{number}" for number, sub in enumerate(subs, start=1)]
    for called, sub in zip(names, subs, strict=True):  # those of one name are told apart by their trajectories
        own += _Reading(sub, called, sub.get("trajectory_id") if names.count(called) > 1 else None).calls()
    dated = sorted(own, key=lambda one: one.timestamp) if all(one.timestamp for one in own) else own
    seen: set[str] = set()
    for number, one in enumerate(dated, start=1):
        identity = one.interaction_id if one.interaction_id not in {"", *seen} else f"atif_{number}"
        seen.add(identity)
        yield replace(one, interaction_id=identity)


def _observed(step: AgentStep) -> tuple[ToolResult, ...]:
    """What the tools of a step gave: it stands in the very step that called them."""
    source = step.interaction.source if step.interaction else None
    names = {call.call_id: call.name for call in step.tool_calls}
    found = source.observed if isinstance(source, _Source) else ()
    return tuple(replace(result, name=names.get(result.call_id)) for result in found)


@dataclass(slots=True)
class _Source:
    """What the document tells of a call: the messages of the conversation up to `length`, which calls share."""

    shared: list[Message]
    length: int
    tools: list[Tool]
    parameters: dict[str, Payload]
    observed: tuple[ToolResult, ...] = ()

    def request(self) -> RequestReading:
        return RequestReading(self.shared[: self.length], self.tools, self.parameters)

    def offer(self) -> RequestReading:
        return self.request()

    @property
    def new_results(self) -> list[ToolResult]:
        found: list[ToolResult] = []
        for message in reversed(self.shared[: self.length]):
            if message.role == "assistant":
                break
            if message.role == "tool":
                found.append(_result(message))
        return found[::-1]

    def is_whole(self) -> bool:
        return True

    def raw_request(self) -> Payload:
        return None

    def raw_response(self) -> Payload:
        return None

    def raw_stream(self) -> str | None:
        return None

    def raw_chunks(self) -> None:
        return None


@dataclass(slots=True)
class _Reading:
    """Reads the steps of one ATIF trajectory."""

    document: Mapping[str, Payload]
    agent: str | None
    identity: str | None = None
    messages: list[Message] = field(default_factory=list)

    def calls(self) -> Iterator[LLMInteraction]:
        """Give the calls that its steps tell of."""
        tools = [by_hand.read_tool(tool) for tool in _tools(self.document["agent"])]
        called = False
        for step in self.document["steps"]:
            message = _message(step)
            if called and step.get("is_copied_context"):  # the history was rewritten, and is told anew from here
                self.messages = []
            called = step["source"] == "agent" and not step.get("is_copied_context") and step.get("llm_call_count") != 0
            results = (step.get("observation") or {}).get("results") or ()
            if called:
                parameters = (step.get("extra") or {}).get("parameters") or {}
                observed = tuple(_result(_answer(result)) for result in results if "content" in result)
                source = _Source(self.messages, len(self.messages), tools, parameters, observed)
                yield self._call(step, message, source)
            if message.content or message.tool_calls or message.reasoning or not (called or results):
                self.messages.append(message)
            self.messages += [_answer(result) for result in results if "content" in result]

    def _ids(self) -> dict[str, Payload]:
        """The ids of its agent: those that a view of ours wrote, or that of a sub-agent's trajectory."""
        stated = self.document["agent"].get("extra") or {}
        return {"agent_id": stated.get("agent_id") or self.identity, "parent_agent_id": stated.get("parent_agent_id")}

    def _call(self, step: Mapping[str, Payload], said: Message, source: _Source) -> LLMInteraction:
        extra = step.get("extra") or {}
        error = _error(extra.get("error"))
        silent = not (said.content or said.tool_calls or said.reasoning)
        return LLMInteraction(
            interaction_id=extra.get("interaction_id") or "",
            timestamp=step.get("timestamp") or "",
            provider=extra.get("provider"),
            model=extra.get("model_asked_for") or step.get("model_name") or self.document["agent"].get("model_name"),
            source=source,
            api=extra.get("api") if "interaction_id" in extra else "atif",
            step_number=extra.get("step_number"),
            agent=self.agent,
            **self._ids(),
            response=NO_RESPONSE if error and silent else _response(step, said, extra),
            error=error,
            **{name: extra.get(name) for name in ("duration_seconds", "time_to_first_token_seconds", "ended_by")},
            attempts=tuple(
                Attempt(**{**one, "error": _error(one.get("error"))}) for one in extra.get("attempts") or ()
            ),
            stream=extra.get("stream") is True,
            complete=extra.get("complete") is not False,
        )


def _tools(agent: Mapping[str, Payload]) -> list[Payload]:
    built_in = (agent.get("extra") or {}).get("built_in_tools")
    return [*(agent.get("tool_definitions") or ()), *(built_in if isinstance(built_in, list) else ())]


def _message(step: Mapping[str, Payload]) -> Message:
    calls = tuple(_call(call) for call in step.get("tool_calls") or ())
    content = step.get("message") or None
    return Message(_ROLES[step["source"]], content, calls, reasoning=step.get("reasoning_content"))


def _call(call: Mapping[str, Payload]) -> ToolCall:
    extra = {name: value for name, value in (call.get("extra") or {}).items() if name != "call_id_made_up"}
    made_up = (call.get("extra") or {}).get("call_id_made_up") is True
    return ToolCall(call["tool_call_id"], call["function_name"], call["arguments"], made_up, extra)


def _answer(result: Mapping[str, Payload]) -> Message:
    extra = result.get("extra") or {}
    succeeded = extra.get("success")
    failed = {"is_error": not succeeded} if isinstance(succeeded, bool) else {}
    return Message("tool", result.get("content"), call_id=result.get("source_call_id"), extra=failed)


def _result(message: Message) -> ToolResult:
    failed = message.extra.get("is_error")
    if failed is True:
        return ToolResult(message.call_id or "", success=False, error=str(message.content))
    return ToolResult(message.call_id or "", success=None if failed is None else True, result=message.content)


def _response(step: Mapping[str, Payload], said: Message, extra: Mapping[str, Payload]) -> LLMResponse:
    parts = said.content if isinstance(said.content, list) else []
    text = "".join(part.get("text") or "" for part in parts) if parts else said.content
    metrics = step.get("metrics") or {}
    ids = known(token_ids=metrics.get("completion_token_ids"), logprobs=_logprobs(metrics.get("logprobs")))
    prompt = known(prompt_token_ids=metrics.get("prompt_token_ids"))
    content = text if isinstance(text, str) else None
    choice = Choice(0, content, said.reasoning, said.tool_calls, extra.get("finish_reason"), extra=ids)
    return LLMResponse(
        content,
        said.reasoning,
        said.tool_calls,
        extra.get("finish_reason"),
        _usage(metrics),
        step.get("model_name"),
        extra.get("response_id"),
        (choice,),
        {**(extra.get("response_extra") or {}), **prompt},
    )


def _logprobs(logprobs: list[float] | None) -> Payload:
    return None if logprobs is None else {"content": [{"logprob": logprob} for logprob in logprobs]}


def _usage(metrics: Mapping[str, Payload]) -> Usage:
    """The usage as the provider stated it, where a view of ours kept that; else ATIF's own counts."""
    stated = (metrics.get("extra") or {}).get("usage")
    if isinstance(stated, dict):
        return Usage(**stated)
    counts = known(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        cache_read_input_tokens=metrics.get("cached_tokens"),
        cost=metrics.get("cost_usd"),
    )
    return Usage(**counts)


def _error(error: Payload) -> ErrorInfo | None:
    if not isinstance(error, dict):
        return None
    return ErrorInfo(str(error.get("type") or "error"), str(error.get("message") or ""), error.get("status"))
