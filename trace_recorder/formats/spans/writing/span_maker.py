"""Makes spans: names, times, attributes by one or two conventions, events, and the status."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol

from trace_recorder.dialects.json_access import as_number
from trace_recorder.figures.call_figures import counted_usage, origin_of, without_replayed_usage
from trace_recorder.figures.conversations.inferred_agents import InferredAgent, inferred_agents_of
from trace_recorder.figures.conversations.side_calls import side_calls_of
from trace_recorder.formats.spans.attribute_names import genai, mcp, own
from trace_recorder.formats.spans.writing.genai import GenAIAttributes, known_attributes, operation_name, text_of_value
from trace_recorder.formats.spans.writing.langfuse import LangfuseAttributes
from trace_recorder.formats.spans.writing.messages import SpanPrompt, attribute_json, encodable
from trace_recorder.formats.spans.writing.openinference import OpenInferenceAttributes
from trace_recorder.formats.spans.writing.span import (
    AttributeValue,
    Span,
    SpanEvent,
    SpanIds,
    SpanKind,
    after,
    nanoseconds,
)
from trace_recorder.formats.spans.writing.tree import AgentRecords, ToolNode, times_of
from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.llm_interaction import Attempt, ErrorInfo, LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import PARENT_CONTEXT
from trace_recorder.values.trajectory import AgentStep, Reward, Trajectory

Conventions = Literal["genai", "genai-0.1", "openinference", "both", "langfuse"]
_WRITERS: Mapping[Conventions, Sequence[Callable[[bool], AttributeWriter]]] = {
    "genai": (GenAIAttributes,),
    "genai-0.1": (partial(GenAIAttributes, is_0_1=True),),
    "openinference": (OpenInferenceAttributes,),
    "both": (GenAIAttributes, OpenInferenceAttributes),
    "langfuse": (LangfuseAttributes,),
}
_NO_IDS = SpanIds("", "")


class AttributeWriter(Protocol):
    """Writes the attributes of spans by one convention."""

    def agent(self, trajectory: Trajectory, /) -> dict[str, AttributeValue]:
        """Return the attributes of the run's own span."""

    def sub_agent(self, source: LLMInteraction | AgentStep, trajectory: Trajectory, /) -> dict[str, AttributeValue]:
        """Return the attributes of the span of an agent that another agent started."""

    def step(self, step: AgentStep, /) -> dict[str, AttributeValue]:
        """Return the attributes of a step."""

    def call(self, call: LLMInteraction, prompt: SpanPrompt, /) -> dict[str, AttributeValue]:
        """Return the attributes of a call to a model."""

    def tool(self, tool: ToolNode, /) -> dict[str, AttributeValue]:
        """Return the attributes of a tool's execution."""


@dataclass(frozen=True, slots=True)
class SpanMaker:
    """Makes the spans of one run by the requested conventions."""

    writers: tuple[AttributeWriter, ...]
    content: bool
    trajectory: Trajectory = field(default_factory=Trajectory)
    ids: SpanIds = _NO_IDS
    side_calls: frozenset[str] = frozenset()
    """The ids of the side calls.

    The set is empty while a run is recorded, because a later call may continue a side call.
    """
    inferred_agents: Mapping[str, InferredAgent] = field(default_factory=dict)
    """The inferred sub-agents by the ids of their interactions. It is empty while a run is recorded."""

    @classmethod
    def of(cls, conventions: Conventions, *, content: bool) -> SpanMaker:
        """Return a maker for the named conventions. Raises ValueError if there are no such conventions."""
        if conventions not in _WRITERS:
            raise ValueError(f"There are no conventions {conventions!r}: give one of {', '.join(_WRITERS)}.")
        return cls(tuple(writer(content) for writer in _WRITERS[conventions]), content)

    def for_run(self, trajectory: Trajectory) -> SpanMaker:
        """Return a maker with the same settings for a run, or for a later state of the run."""
        maker = replace(self, trajectory=trajectory, ids=SpanIds.of(trajectory))
        if trajectory.status == "running":
            return maker
        return replace(maker, side_calls=side_calls_of(trajectory), inferred_agents=inferred_agents_of(trajectory))

    def run(self, span_id: str) -> Span:
        """Make the span of the whole run."""
        run = self.trajectory
        start = nanoseconds(run.start_time) or 0
        attributes = _merge_attributes(writer.agent(run) for writer in self.writers)
        attributes |= dict(self._run_attributes())
        error = run.error
        if error is None and run.status in {"failed", "interrupted"}:
            error = ErrorInfo(run.status, "")
        end = nanoseconds(run.end_time) or max((times_of(call)[1] or 0 for call in run.llm_interactions), default=start)
        events = (*self._rewards(max(start, end), None), *self._gaps(start), *self._exception(error, max(start, end)))
        return self._span(
            (span_id, self.ids.parent_id), "invoke_agent", (start, max(start, end)), attributes, events, error
        )

    def sub_agent(self, span_id: str, parent: str, agent: AgentRecords) -> Span:
        """Make the span of an agent that another agent started."""
        attributes = _merge_attributes(writer.sub_agent(agent.first, self.trajectory) for writer in self.writers)
        start = agent.start or nanoseconds(self.trajectory.start_time) or 0
        name = "invoke_agent"
        if agent.first.agent:
            name = f"invoke_agent {agent.first.agent}"
        return self._span((span_id, parent), name, (start, agent.end or start), attributes)

    def step(self, span_id: str, parent: str, step: AgentStep) -> Span:
        """Make the span of a step that the agent recorded."""
        attributes = _merge_attributes(writer.step(step) for writer in self.writers)
        attributes |= known_attributes(
            {"trace_recorder.step.number": step.step_number, "trace_recorder.step.state": step.state}
        )
        if self.content:
            attributes |= known_attributes({"trace_recorder.step.reflection": step.reflection})
            summary = step.extra.get("lakeview_summary")
            if summary is not None:
                attributes["trace_recorder.step.summary"] = text_of_value(summary)
        start, end = times_of(step)
        times = start or 0, end or start or 0
        error = None
        if step.error:
            error = ErrorInfo("step_error", step.error)
        events = (*self._rewards(times[1], step.step_number), *self._exception(error, times[1]))
        return self._span((span_id, parent), f"step {step.step_number}", times, attributes, events, error)

    def call(self, span_id: str, parent: str, interaction: LLMInteraction, prompt: SpanPrompt) -> Span:
        """Make the span of a call to a model, from the start of its first attempt to the end of its last attempt."""
        billed, origin = without_replayed_usage(interaction), origin_of(interaction, counted_usage(interaction) or None)
        attempts = interaction.attempts
        attributes = _merge_attributes(writer.call(billed, prompt) for writer in self.writers)
        if origin is not None:
            attributes[own.REPLAYED_FROM] = attribute_json(origin)
        attributes |= known_attributes(
            {"trace_recorder.interaction_id": interaction.interaction_id, "trace_recorder.api": interaction.api}
        )
        events: list[SpanEvent] = []
        if len(attempts) > 1:
            attributes["http.request.resend_count"] = len(attempts) - 1
            earlier = attempts[: len(attempts) - (interaction.error is None)]
            events += [self._attempt(attempt) for attempt in earlier if attempt.error]
        error = interaction.error
        if not interaction.complete:
            attributes["trace_recorder.incomplete"] = True
            error = error or ErrorInfo(interaction.ended_by or "incomplete", "")
        if interaction.run_inferred:
            attributes["trace_recorder.run_inferred"] = True
        if interaction.interaction_id in self.side_calls:
            attributes["trace_recorder.side_call"] = True
        inferred = self.inferred_agents.get(interaction.interaction_id)
        if inferred is not None:
            members = inferred.to_document()
            attributes |= known_attributes({f"trace_recorder.inferred_agent.{name}": members[name] for name in members})
        start, end = times_of(interaction)
        times = start or 0, end or start or 0
        events += self._exception(error, times[1])
        name = operation_name(interaction)
        if interaction.model:
            name = f"{name} {interaction.model}"
        return self._span((span_id, parent), name, times, attributes, (*events,), error, kind="client")

    def tool(self, span_id: str, parent: str, tool: ToolNode) -> Span:
        """Make the span of a tool's execution."""
        return self._tool(span_id, parent, tool, f"execute_tool {tool.name}", "internal")

    def server_call(self, span_id: str, parent: str, tool: ToolNode) -> Span:
        """Make the span of a call of an MCP server that a tool of the agent made."""
        return self._tool(span_id, parent, tool, f"{mcp.CALL_TOOL} {tool.name}", "client")

    def _tool(self, span_id: str, parent: str, tool: ToolNode, name: str, kind: SpanKind) -> Span:
        result = tool.result
        attributes = _merge_attributes(writer.tool(tool) for writer in self.writers)
        attributes |= _server_attributes(tool)
        start, end, is_inferred = tool.times()
        if is_inferred:
            attributes["trace_recorder.time_is_inferred"] = True
        if result.replayed:
            attributes["trace_recorder.replayed"] = True
        error = None
        if result.success is False:
            error = _error_of_tool(tool)
        events = tuple(self._exception(error, end))
        return self._span((span_id, parent), name, (start, end), attributes, events, error, kind=kind)

    def reward(self, span_id: str, parent: str, reward: Reward) -> Span:
        """Make the span of a reward that was recorded after the span of its step or run was delivered."""
        time = nanoseconds(reward.timestamp) or nanoseconds(self.trajectory.end_time) or 0
        event = self._reward(reward, time)
        attributes = {genai.OPERATION: "evaluate", **event.attributes}
        return self._span((span_id, parent), f"evaluate {reward.name}", (time, time), attributes, (event,))

    def annotation(self, span_id: str, parent: str, key: str) -> Span:
        """Make the span of an annotation that was recorded after the run's own span was delivered."""
        time = nanoseconds(self.trajectory.end_time) or 0
        attributes = {encodable(f"{own.ANNOTATION}{key}"): _attribute(self.trajectory.annotations[key])}
        return self._span((span_id, parent), f"annotate {key}", (time, time), attributes)

    def _span(
        self,
        place: tuple[str, str | None],
        name: str,
        times: tuple[int, int],
        attributes: Mapping[str, AttributeValue],
        events: tuple[SpanEvent, ...] = (),
        error: ErrorInfo | None = None,
        *,
        kind: SpanKind = "internal",
    ) -> Span:
        all_attributes, message = {**attributes}, None
        if error is not None:
            error_type = error.type or "_OTHER"
            if error.status is not None:
                error_type = str(error.status) or error_type
            all_attributes[genai.ERROR_TYPE] = encodable(error_type)
            message = ""
            if self.content:
                message = encodable(error.message or error.type)
        return Span(self.ids.trace_id, *place, encodable(name), kind, *times, all_attributes, events, message)

    # ── events, and attributes without a place in the conventions ────────────────────────────────────────────────────

    def _exception(self, error: ErrorInfo | None, time: int) -> Iterator[SpanEvent]:
        if error is not None:
            attributes = known_attributes({genai.EXCEPTION_TYPE: error.type or "_OTHER"})
            if self.content and error.message:
                attributes |= known_attributes({genai.EXCEPTION_MESSAGE: error.message})
            yield SpanEvent(genai.EXCEPTION_EVENT, time, attributes)

    def _attempt(self, attempt: Attempt) -> SpanEvent:
        """Return the event of a failed attempt. The time of the event is the end of the attempt."""
        error = attempt.error
        attributes = known_attributes(
            {"trace_recorder.attempt.number": attempt.number, "http.response.status_code": attempt.status}
        )
        if error is not None:
            attributes |= known_attributes({genai.ERROR_TYPE: str(error.status or error.type)})
            if self.content:
                attributes |= known_attributes({genai.EXCEPTION_MESSAGE: error.message})
        end = after(nanoseconds(attempt.timestamp) or 0, attempt.duration_seconds)
        return SpanEvent("trace_recorder.attempt", end, attributes)

    def _rewards(self, end: int, step: int | None) -> Iterator[SpanEvent]:
        """Yield the rewards of the run or of a step. Rewards of steps without a span belong to the run."""
        spans = {
            number_or_text(recorded.step_number) for recorded in self.trajectory.agent_steps if not recorded.derived
        }
        for reward in self.trajectory.rewards:
            of_step = number_or_text(reward.step_number)
            if of_step not in spans:
                of_step = None
            if of_step == number_or_text(step):
                yield self._reward(reward, end)

    def _reward(self, reward: Reward, end: int) -> SpanEvent:
        explanation = None
        if self.content:
            explanation = reward.explanation
        attributes = known_attributes(
            {
                genai.EVALUATION_NAME: reward.name,
                genai.EVALUATION_SCORE: _number(reward.value),
                genai.EVALUATION_EXPLANATION: explanation,
                own.REWARD_WEIGHT: _number(reward.weight),
                own.REWARD_STEP_NUMBER: reward.step_number,
            }
        )
        return SpanEvent(genai.EVALUATION_EVENT, nanoseconds(reward.timestamp) or end, attributes)

    def _gaps(self, start: int) -> Iterator[SpanEvent]:
        for gap in self.trajectory.gaps:
            attributes = known_attributes({"trace_recorder.gap.what": gap.what, "trace_recorder.gap.why": gap.why})
            yield SpanEvent("trace_recorder.gap", nanoseconds(gap.timestamp) or start, attributes)

    def _run_attributes(self) -> Iterator[tuple[str, AttributeValue]]:
        run = self.trajectory
        yield own.STATUS, run.status
        if run.parent is not None:
            yield own.PARENT, encodable(run.parent)
        if run.session is not None:
            yield own.SESSION, encodable(run.session)
        if run.success is not None:
            yield own.SUCCESS, run.success
        if run.max_steps is not None:
            yield own.MAX_STEPS, run.max_steps
        if not self.content:
            return
        if isinstance(run.task, str):
            yield own.TASK, run.task
        groups: dict[str, dict[str, Payload]] = {own.METADATA: run.metadata, own.ANNOTATION: run.annotations}
        for prefix, members in groups.items():
            for key, value in members.items():
                if key != PARENT_CONTEXT:
                    yield encodable(f"{prefix}{key}"), _attribute(value)


def _merge_attributes(attributes: Iterable[dict[str, AttributeValue]]) -> dict[str, AttributeValue]:
    return {name: value for written in attributes for name, value in written.items()}


def _number(value: Payload) -> float | None:
    """Return a number, or None for any other value, because a file may have any value here."""
    number = as_number(value)
    if number is None:
        return None
    return float(number)


def _attribute(value: Payload) -> AttributeValue:
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    return text_of_value(value)


def _server_attributes(tool: ToolNode) -> dict[str, AttributeValue]:
    """Return the facts about an MCP server for which the conventions have no attribute."""
    call = tool.server_call
    if call is None:
        return {}
    tool_at_server = call.tool
    if tool_at_server == tool.name:
        tool_at_server = None
    return known_attributes(
        {
            own.SERVER: call.server,
            own.SERVER_VERSION: call.version,
            own.SERVER_TOOL: tool_at_server,
            own.JOINED_BY: call.joined_by,
        }
    )


def _error_of_tool(tool: ToolNode) -> ErrorInfo:
    """Return the error of a tool.

    Its kind is the code that an MCP server stated, or the name of an exception at the beginning of the text.
    """
    text, call = tool.result.error or "", tool.server_call
    if call is not None and call.error_code is not None:
        return ErrorInfo(str(call.error_code), text)
    if call is not None and len(call.messages) == 1:  # the server did not answer, which has no type
        return ErrorInfo("", text)
    if call is not None:
        return ErrorInfo(mcp.TOOL_ERROR, text)
    kind, colon, message = text.partition(": ")
    if colon and kind.isidentifier():
        return ErrorInfo(kind, message)
    return ErrorInfo(mcp.TOOL_ERROR, text)
