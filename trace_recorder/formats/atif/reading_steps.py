"""Reads the steps of one ATIF trajectory: its calls, each with its prompt and the results of its tools.

Members for which the classes of `values/` have no field are kept under the name `atif` (`members.py`). `document.py`
joins the trajectories of a document into a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_list
from trace_recorder.formats.atif import members
from trace_recorder.formats.atif.members import (
    agent_members,
    is_tool_step,
    read_atif_call,
    read_atif_error,
    read_atif_response,
)
from trace_recorder.formats.atif.own_members import SERVER_CALLS, AtifRecordedStep, extra_of, values_of_connections
from trace_recorder.reading.table_prompts import newest_results
from trace_recorder.values.llm_interaction import Attempt, LLMInteraction, WithoutRawData
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import (
    NO_RESPONSE,
    MCPCall,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolResult,
    without_none,
)
from trace_recorder.values.origins import ReplayedFrom

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


@dataclass(slots=True)
class AtifSource(WithoutRawData):
    """The request of one call, and the results that its tools returned.

    `recorded_steps` are the steps that the agent recorded for the call.
    """

    messages: NumberedMessages
    tools: list[Tool]
    parameters: dict[str, Payload]
    observed: tuple[ToolResult, ...] = ()
    recorded_steps: tuple[AtifRecordedStep, ...] = ()

    def request(self) -> RequestReading:
        """Return the messages that the model saw, the tools, and the parameters."""
        return RequestReading(self.messages, self.tools, self.parameters)

    def request_without_messages(self) -> RequestReading:
        """Return the whole request, because its messages are already read."""
        return self.request()

    @property
    def new_tool_results(self) -> list[ToolResult]:
        """The tool results since the model's last answer."""
        return newest_results(self.messages)

    def has_request(self) -> bool:
        """Return True."""
        return True


@dataclass(slots=True)
class TrajectoryReader:
    """A reader of the steps of one ATIF trajectory.

    `parent` reads the trajectory in which this trajectory is embedded. `embedded` has the ids of the trajectories that
    are embedded in this trajectory. `execution_ids` maps each of these ids to the id of the tool execution that started
    the sub-agent.
    """

    document: Mapping[str, Payload]
    embedded: frozenset[str]
    parent: TrajectoryReader | None = None
    messages: NumberedMessages = field(default_factory=lambda: MessageTable().prompt())
    calls: list[LLMInteraction] = field(default_factory=list)
    first_call_id: str = ""
    execution_ids: dict[str, str] = field(default_factory=dict)

    def extra_members(self, root: Mapping[str, Payload], model: str | None) -> dict[str, Payload]:
        """Return the trajectory's kept members, its steps after its last call, and its sub-agents that made no call."""
        steps = self._steps()
        last = max((number for number, step in enumerate(steps, start=1) if _is_call(step)), default=0)
        kept = members.of_document(self.document, root=root, model=model, called=bool(self.calls))
        subs = self.document.get("subagent_trajectories") or ()
        without_calls = [sub for sub in subs if not any(map(_is_call, sub["steps"]))]
        return kept | without_none(steps=steps[last:] or None, subagent_trajectories=without_calls or None)

    def read(self) -> Iterator[LLMInteraction]:
        """Yield the calls of the trajectory's steps."""
        agent = self.document["agent"]
        declared = [*(agent.get("tool_definitions") or ()), *as_list(extra_of(agent).get("built_in_tools"))]
        tools = [manual.read_tool(tool) for tool in declared]
        is_call = False
        for step, next_request in _with_next_request(self._steps()):
            is_after_call, is_call = is_call, _is_call(step)
            if is_after_call and step.get("is_copied_context") and not is_call:
                self.messages = self.messages[:0]  # the agent rewrote its history, which the document repeats here
            message = _message(step, next_request)
            results = _observations(step)
            if is_call:
                yield self._call(step, message, self._source(step, tools, results))
            if _has_content(message) or not (is_call or results):
                self.messages = self.messages.extended([message])
            answers = [self._answer(step, result) for result in results if "content" in result]
            self.messages = self.messages.extended(answers)

    def _steps(self) -> list[Mapping[str, Payload]]:
        return [step for step in self.document["steps"] if not is_tool_step(step)]

    def _source(self, step: Mapping[str, Payload], tools: list[Tool], results: Sequence[Payload]) -> AtifSource:
        extra = members.written_by_view(extra_of(step))
        parameters, effort = extra.get("parameters") or {}, step.get("reasoning_effort")
        if effort is not None and members.effort_of(parameters) != effort:
            parameters = {**parameters, "reasoning_effort": effort}
        observed = tuple(filter(None, (self._result(step, result) for result in results)))
        recorded_steps = tuple(extra.get("agent_steps") or ())
        return AtifSource(self.messages, tools, parameters, observed, recorded_steps)

    def _answer(self, step: Mapping[str, Payload], result: Mapping[str, Payload]) -> Message:
        """Return the message that showed a tool's result to the model."""
        in_step = step["source"] == "agent"
        call_id, name = result.get("source_call_id") or None, None
        if not in_step:
            call_id = call_id or extra_of(step).get("tool_call_id")
            name = extra_of(step).get("tool_name")
        extra: dict[str, Payload] = {}
        succeeded = extra_of(result).get("success")
        if isinstance(succeeded, bool):
            extra["is_error"] = not succeeded
        extra |= members.as_kept(members.of_result(result, self.embedded, in_step=in_step))
        return Message("tool", result.get("content"), (), call_id, name, extra=extra)

    def _result(self, step: Mapping[str, Payload], result: Mapping[str, Payload]) -> ToolResult | None:
        """Return the result of a tool: the value that the agent recorded, or otherwise the text that the model saw."""
        extra, call_id = extra_of(result), result.get("source_call_id")
        execution = self._execution_id(step, result)
        if "content" not in result and not execution:
            return None
        shown, sent = result.get("content"), None
        success, error, value = extra.get("success"), extra.get("error"), extra.get("result")
        if success is False and error is None:
            error, shown = str(shown), None
        if not isinstance(success, bool):
            success = None
        if value is None and error is None:
            value = shown
        else:
            sent = shown
        return ToolResult(
            call_id or "",
            success=success,
            result=value,
            error=error,
            sent=sent,
            duration_seconds=extra.get("duration_seconds"),
            execution_id=execution,
            mcp=values_of_connections(MCPCall, extra.get(SERVER_CALLS)),
        )

    def _execution_id(self, step: Mapping[str, Payload], result: Mapping[str, Payload]) -> str | None:
        """Make up an id for the execution of a tool. Return None if the tool started no sub-agents."""
        refs = [ref["trajectory_id"] for ref in result.get("subagent_trajectory_ref") or () if "trajectory_id" in ref]
        if not result.get("source_call_id") or not self.embedded.intersection(refs):
            return None
        execution = f"{self.document.get('trajectory_id') or ''}#{step.get('step_id')}/{result['source_call_id']}"
        self.execution_ids |= dict.fromkeys(refs, execution)
        return execution

    def _agent_members(self) -> dict[str, Payload]:
        """Return the members that name the agent of this trajectory's calls.

        A sub-agent without a name is named by its position.
        """
        agent, parent = self.document["agent"], self.parent
        if parent is None:
            return agent_members(agent)
        extra, identity = extra_of(agent), self.document.get("trajectory_id")
        siblings = parent.document["subagent_trajectories"]
        position = next(number for number, sub in enumerate(siblings, start=1) if sub is self.document)
        agent_id, parent_agent_id = extra.get("agent_id"), extra.get("parent_agent_id")
        if not agent_id and self._needs_id(parent, siblings):
            agent_id = identity
        if not parent_agent_id and parent.parent is not None and parent.calls:
            parent_agent_id = parent.calls[0].agent_id
        return {
            "agent": agent.get("name") or f"subagent_{position}",
            "agent_id": agent_id or None,
            "parent_agent_id": parent_agent_id or None,
            "parent_execution_id": parent.execution_ids.get(identity or ""),
        }

    def _needs_id(self, parent: TrajectoryReader, siblings: Sequence[Mapping[str, Payload]]) -> bool:
        """Return whether a sub-agent needs an id, because its name may be ambiguous.

        It needs an id if it has sub-agents, if a sub-agent started it instead of the main agent, or if a sibling has
        the same name.
        """
        if self.document.get("subagent_trajectories") or parent.parent is not None:
            return True
        return [sub["agent"].get("name") for sub in siblings].count(self.document["agent"].get("name")) > 1

    def _call(self, step: Mapping[str, Payload], message: Message, source: AtifSource) -> LLMInteraction:
        extra = members.written_by_view(extra_of(step))
        error, attempts = read_atif_error(extra.get("error")), extra.get("attempts") or ()
        kept = members.as_kept(members.of_call(step, self._references(step)))
        api: Payload = members.DIALECT
        if extra:
            api = extra.get("api")
        response = NO_RESPONSE
        if error is None or _has_content(message):
            response = read_atif_response(step, message, extra, kept)
        return LLMInteraction(
            interaction_id=extra.get("interaction_id") or "",
            timestamp=extra.get("requested_at") or step.get("timestamp") or "",
            provider=extra.get("provider"),
            model=extra.get("model_asked_for") or step.get("model_name") or self.document["agent"].get("model_name"),
            source=source,
            api=api,
            step_number=extra.get("step_number"),
            **self._agent_members(),
            response=response,
            error=error,
            duration_seconds=extra.get("duration_seconds"),
            time_to_first_token_seconds=extra.get("time_to_first_token_seconds"),
            ended_by=extra.get("ended_by"),
            attempts=tuple(
                Attempt(**{**attempt, "error": read_atif_error(attempt.get("error"))}) for attempt in attempts
            ),
            stream=extra.get("stream") is True,
            complete=extra.get("complete") is not False,
            replayed_from=_origin(step),
            run_inferred=extra.get("run_inferred") is True,
        )

    def _references(self, step: Mapping[str, Payload]) -> list[Payload]:
        """Return the results of a step that have only references to trajectories outside of the document."""
        references = []
        for result in _observations(step):
            refs = members.external_references(result, self.embedded)
            if refs and "content" not in result:
                references.append({**result, "subagent_trajectory_ref": refs})
        return references


def _observations(step: Mapping[str, Payload]) -> Sequence[Mapping[str, Payload]]:
    return (step.get("observation") or {}).get("results") or ()


def _is_call(step: Mapping[str, Payload]) -> bool:
    """Return whether a step of the agent is a call to a model.

    A copy of an earlier step is not a call, and a step whose `llm_call_count` is 0 is not a call. Our view also marks
    the recorded answers of a replay or a fork as copies. The steps with these answers are calls of this run.
    """
    is_copy = step.get("is_copied_context") and _origin(step) is None
    return step["source"] == "agent" and not is_copy and step.get("llm_call_count") != 0


def _origin(step: Mapping[str, Payload]) -> ReplayedFrom | None:
    """Return the origin of a step's answer, or None if our view did not mark the answer as one that a replay gave."""
    return ReplayedFrom.of_document(members.written_by_view(extra_of(step)).get("replayed_from"))


def _with_next_request(steps: Sequence[Mapping[str, Payload]]) -> list[tuple[Mapping[str, Payload], str | None]]:
    """Return each step with the time of the next call's request, or with None if our view did not write that time."""
    next_request: str | None = None
    pairs = []
    for step in reversed(steps):
        pairs.append((step, next_request))
        if _is_call(step):
            next_request = members.written_by_view(extra_of(step)).get("requested_at")
    return pairs[::-1]


def _message(step: Mapping[str, Payload], next_request: str | None) -> Message:
    calls = tuple(map(read_atif_call, step.get("tool_calls") or ()))
    content = step.get("message") or None
    extra: dict[str, Payload] = {}
    if not _is_call(step):
        extra = members.as_kept(members.of_message(step, next_request))
    return Message(_ROLES[step["source"]], content, calls, reasoning=step.get("reasoning_content"), extra=extra)


def _has_content(message: Message) -> bool:
    return bool(message.content or message.tool_calls or message.reasoning)
