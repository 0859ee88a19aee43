"""The events of a run in the form of Inspect's logs: calls to models, tool executions, spans of agents and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.figures.call_figures import origin_of
from trace_recorder.figures.content.chat_form import arguments_object, result_text
from trace_recorder.formats.inspect_ai.writing_messages import MessagePool, log_error, output_of, tool_of
from trace_recorder.formats.spans.writing.genai import INTEGER_PARAMETERS, NUMBER_PARAMETERS, parameter, text_of_value
from trace_recorder.formats.spans.writing.span import iso, nanoseconds
from trace_recorder.formats.spans.writing.tree import SpanTree, ToolNode, times_of
from trace_recorder.reading.relations.turn import key_of_agent
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.trajectory import Reward


@dataclass(slots=True)
class InspectEvents:
    """Writes the events of a run. `pool` has the messages to which the events refer."""

    tree: SpanTree
    pool: MessagePool = field(default_factory=MessagePool)
    start: int = 0
    _events: list[tuple[int, int, int, dict[str, Payload]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = nanoseconds(self.tree.trajectory.start_time) or 0

    def all(self, name: str) -> list[dict[str, Payload]]:
        """Return all events in the order of time. `name` is the name of the main agent."""
        run = self.tree.trajectory
        end = max(
            [nanoseconds(run.end_time) or 0, self.start, *(times_of(source)[1] or 0 for source in self.tree.calls)]
        )
        self._span(self.tree.root, None, "agent", name, (self.start, end), depth=0)
        for key, agent in self.tree.agents.items():
            times = agent.start or self.start, agent.end or agent.start or self.start
            parent = self.tree.parent_of_agent(agent)
            self._span(self.tree.agent_span(key), parent, "agent", str(agent.first.agent), times, depth=3)
        for step in self.tree.steps:
            begin, finish = times_of(step)
            times, parent = (
                (begin or self.start, finish or begin or self.start),
                self.tree.agent_span(key_of_agent(step)),
            )
            self._span(self.tree.step_span(step), parent, "step", f"step {step.step_number}", times, depth=1)
        for source in self.tree.calls:
            self._call(source)
        for tool in self.tree.tools:
            self._tool(tool)
        for gap in run.gaps:
            info = {"event": "info", "source": "gap", "data": {"what": gap.what, "why": gap.why}}
            self._add(nanoseconds(gap.timestamp) or self.start, 4, self.tree.root, info)
        for reward in run.rewards:
            self._score(reward, end)
        return [event for _, _, _, event in sorted(self._events, key=lambda entry: entry[:3])]

    def _add(self, time: int, rank: int, span: str, event: dict[str, Payload]) -> None:
        number = len(self._events)
        full_event = {
            "uuid": self.tree.ids.span_id("event", str(number)),
            "span_id": span,
            "timestamp": iso(time),
            "working_start": max(0, time - self.start) / 1e9,
            **event,
        }
        self._events.append((time, rank, number, full_event))

    def _span(
        self, identity: str, parent: str | None, kind: str, name: str, times: tuple[int, int], *, depth: int
    ) -> None:
        begin = {"event": "span_begin", "id": identity, "type": kind, "name": name, **without_none(parent_id=parent)}
        self._add(times[0], depth, identity, begin)
        self._add(max(times), 20 - depth, identity, {"event": "span_end", "id": identity})

    def _call(self, call: LLMInteraction) -> None:
        begin, end = times_of(call)
        start, reading = begin or self.start, call.source.request_without_messages()
        messages: Sequence[Message] = ()
        if call.source.has_request():
            messages = call.input_messages
        seconds = call.duration_seconds
        if call.attempts:
            seconds = call.attempts[-1].duration_seconds
        event: dict[str, Payload] = {
            "event": "model",
            "model": call.model or "unknown",
            "input": [],
            "input_refs": self.pool.references(messages),
            "tools": [*map(tool_of, call.tools)],
            "tool_choice": "auto",
            "config": dict(_config(reading.parameters)),
            "output": output_of(call),
            "completed": iso(end or start),
            "metadata": {
                "interaction_id": call.interaction_id,
                **without_none(api=call.api, provider=call.provider, replayed_from=origin_of(call)),
                **without_none(run_inferred=call.run_inferred or None),
            },
        }
        if call.is_replayed:
            event["cache"] = "read"
        if len(call.attempts) > 1:
            event["retries"] = len(call.attempts) - 1
        if call.error is not None:
            event["error"] = f"{call.error.type}: {call.error.message}"
        event |= without_none(working_time=seconds)
        self._add(start, 5, self.tree.parent_of_call(call), event)

    def _tool(self, tool: ToolNode) -> None:
        start, end, _ = tool.times()
        result, span = tool.result, self.tree.tool_span(tool)
        rank, arguments = 6, {}
        if tool.call is not None:
            arguments = arguments_object(tool.call)
        event: dict[str, Payload] = {
            "event": "tool",
            "type": "function",
            "id": result.call_id,
            "function": tool.name,
            "arguments": arguments,
            "result": result_text(result),
            "events": [],
            "completed": iso(end),
        }
        if result.success is False:
            event |= {"error": log_error(result.error or result_text(result)), "failed": True}
        event |= without_none(working_time=tool.seconds)
        if result.replayed:
            event["metadata"] = {"replayed": True}
        agent = self._agent_of(tool)
        if agent is not None:
            rank, event["agent_span_id"] = 1, agent
            self._span(span, self.tree.parent_of_tool(tool), "tool", tool.name, (start, end), depth=2)
        self._add(start, rank, self.tree.parent_of_tool(tool), event)

    def _agent_of(self, tool: ToolNode) -> str | None:
        """Return the span of the first agent that a tool started, or None."""
        if tool.execution_id is None:
            return None
        for key, agent in self.tree.agents.items():
            if agent.execution_id == tool.execution_id:
                return self.tree.agent_span(key)
        return None

    def _score(self, reward: Reward, end: int) -> None:
        event = {
            "event": "score",
            "score": score_of(reward),
            "intermediate": reward.step_number is not None,
            "scorer": text_of_value(reward.name),
        }
        self._add(min(nanoseconds(reward.timestamp) or end, end), 7, self.tree.root, event)


def score_of(reward: Reward) -> dict[str, Payload]:
    """Return a reward as a score."""
    metadata = without_none(weight=reward.weight, step_number=reward.step_number)
    value: Payload = reward.value
    if not isinstance(value, bool | int | float | str):
        value = str(value)
    return {"value": value, **without_none(explanation=reward.explanation), "metadata": metadata}


def _config(parameters: dict[str, Payload]) -> Iterator[tuple[str, Payload]]:
    for name, names in (NUMBER_PARAMETERS | INTEGER_PARAMETERS).items():
        value = parameter(parameters, *names)
        is_number = isinstance(value, int) or (isinstance(value, float) and name in NUMBER_PARAMETERS)
        if is_number and not isinstance(value, bool):
            yield name, value
