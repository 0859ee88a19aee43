"""Makes a `ForeignRun` from a trajectory, so that a journal can be written.

ATIF, Trae Agent's documents and our own documents without a journal have a whole run as one document. Such a file is
first read as a `Trajectory`, in the same way as by `load`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter

from trace_recorder.clocks import parse_time
from trace_recorder.facts import AgentStepFact
from trace_recorder.formats.foreign_runs.run import (
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Members,
    NumberedHistories,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.storage.items.shared_lists import ListPrefix
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Message, Payload, Tool, ToolCall
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import AgentStep, Trajectory

_SUMMARY = "lakeview_summary"
_NO_CALL = ToolCall("", "", None)


def foreign_run_of(run: Trajectory, format_name: str, name: str) -> ForeignRun:
    """Return a trajectory as the run of another tool.

    If the trajectory has no id, `name` becomes the run's identity.
    """
    error: Members | None = None
    if run.error is not None:
        error = run.error.to_document()
    return ForeignRun(
        format=format_name,
        identity=run.trajectory_id or name,
        events=[*_in_order([*_TrajectoryEvents(run).events()]), *_facts_of_run(run)],
        parent=run.parent,
        session=run.session,
        task=run.task,
        provider=run.provider,
        model=run.model,
        max_steps=run.max_steps,
        start_time=run.start_time or "",
        end_time=run.end_time or "",
        status=run.status,
        success=run.success,
        final_result=run.final_result,
        error=error,
        metadata=dict(run.metadata),
    )


class _TrajectoryEvents:
    """A maker of events from the calls and steps of a trajectory.

    Each step follows its calls, and the executions of its tools follow the step.
    """

    def __init__(self, run: Trajectory) -> None:
        self._run = run
        self._messages = EqualMessages(json_key)
        self._histories = NumberedHistories(lambda number: self._messages.messages[number].to_document())
        self._remaining = {interaction.interaction_id: interaction for interaction in run.llm_interactions}

    def events(self) -> Iterator[Event]:
        """Yield the events in the order of the run's steps, and then the calls that belong to no step."""
        for step in self._run.agent_steps:
            step_calls = [self._remaining[name] for name in step.interaction_ids if name in self._remaining]
            if step.interaction:
                step_calls.append(step.interaction)
            for call in step_calls:
                if self._remaining.pop(call.interaction_id, None) is not None:
                    yield self._call(call)
            if step.derived:
                yield from _tool_runs(step)
            else:
                yield self._step(step)
        yield from map(self._call, self._remaining.values())

    def _history(self, messages: Sequence[Message]) -> tuple[ForeignConversation, int]:
        """Return a conversation that begins with these messages, and how many there are."""
        numbers = self._messages.numbers_of(messages)
        conversation, _ = self._histories.add(numbers)
        return conversation, len(numbers)

    def _call(self, call: LLMInteraction) -> Call:
        conversation, length = self._history(call.input_messages)
        error: Members | None = None
        if call.error is not None:
            error = call.error.to_document()
        return Call(
            time=call.timestamp,
            conversation=conversation,
            length=length,
            api=call.api,
            response=call.response.to_document() or None,
            error=error,
            provider=call.provider,
            model=call.model,
            tools=list(map(_tool, call.tools)),
            parameters=dict(call.parameters),
            interaction_id=call.interaction_id or None,
            agent=_agent(call),
            duration_seconds=call.duration_seconds,
            time_to_first_token_seconds=call.time_to_first_token_seconds,
            stream=call.stream or None,
            complete=call.complete,
            ended_by=call.ended_by,
        )

    def _step(self, step: AgentStep) -> TimedFact:
        messages = None
        if step.messages is not None:
            messages = ListPrefix(*self._history(step.messages))
        fact = AgentStepFact(
            **_agent(step).members(),
            step_number=step.step_number,
            state=step.state,
            llm_response=step.llm_response and step.llm_response.to_document(),
            tool_calls=[call.to_document() for call in step.tool_calls] or None,
            tool_results=[result.to_document() for result in step.tool_results] or None,
            reflection=step.reflection,
            error=step.error,
        )
        return TimedFact(fact, step.timestamp, {"llm_messages": messages})


def _tool(tool: Tool) -> Payload:
    """Return the tool as it was offered, or its name if the definition is not known."""
    return tool.name if tool.raw is None else tool.raw


def _in_order(events: list[Event]) -> list[Event]:
    """Return events in the order of their times, if each event has a time.

    A document lists calls and steps separately.
    """
    times = [parse_time(stated_time(event.time)) for event in events]
    known = [time for time in times if time is not None]
    if len(known) < len(events):
        return events
    return [event for _, event in sorted(zip(known, events, strict=True), key=itemgetter(0))]


def _agent(recorded: LLMInteraction | AgentStep) -> ForeignAgent:
    parent_execution_id: str | None = None
    if isinstance(recorded, LLMInteraction):
        parent_execution_id = recorded.parent_execution_id
    return ForeignAgent(
        name=recorded.agent,
        agent_id=recorded.agent_id,
        parent_agent_id=recorded.parent_agent_id,
        parent_execution_id=parent_execution_id,
    )


def _tool_runs(step: AgentStep) -> Iterator[ToolRun]:
    """Yield the executions of a step's tools. A result without a call id is matched to a call by its position."""
    calls = {call.call_id: call for call in step.tool_calls}
    for use in tool_uses(step.tool_calls, step.tool_results):
        result = use.result
        if result is None:
            continue
        call = use.call or calls.get(result.call_id) or _NO_CALL
        yield ToolRun(
            time=step.timestamp,
            name=result.name or call.name or "unnamed",
            arguments=call.arguments,
            call_id=result.call_id or call.call_id or None,
            execution_id=result.execution_id,
            ended=step.timestamp,
            success=result.success,
            result=result.result,
            error=result.error,
            duration_seconds=result.duration_seconds,
            agent=_agent(step),
        )


def _facts_of_run(run: Trajectory) -> Iterator[Event]:
    for step in run.agent_steps:
        if _SUMMARY in step.extra:
            yield TimedFact.summary(step_number=step.step_number, value=step.extra[_SUMMARY])
    for key, value in run.annotations.items():
        yield TimedFact.annotation(key=key, value=value)
    for reward in run.rewards:
        yield TimedFact.reward(
            name=reward.name,
            value=reward.value,
            weight=reward.weight,
            step_number=reward.step_number,
            explanation=reward.explanation,
            time=reward.timestamp or "",
        )
    for gap in run.gaps:
        yield TimedFact.gap(what=gap.what, why=gap.why, time=gap.timestamp or "")
