"""One sample of a log: its events become those of a run.

Calls to models and tools stand in spans (older logs: steps, or events inside a tool's event). A span of an agent inside
that of another one is a sub-agent, and so is a scorer that asks a model. Where a sample has no events, its messages are
read. What has no place in a run is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.identities import joined_id
from trace_recorder.imports.foreign.inspect_ai import chat
from trace_recorder.imports.foreign.inspect_ai.attachments import Attachments
from trace_recorder.imports.foreign.inspect_ai.prompts import Prompts
from trace_recorder.imports.foreign.run import MAIN, Agent, Call, Conversation, Event, Kept, Members, Missing, ToolRun
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import ReplayedFrom

_STRUCTURE = {"span_begin", "span_end", "step"}
_AGENTS = {"agent", "scorer"}
_CALL = {"cache", "retries", "role", "traceback"}


@dataclass(frozen=True, slots=True)
class _Span:
    """A span, with the agent that is at work in it and the execution of the tool that it belongs to."""

    agent: Agent
    execution: str | None = None
    is_agents: bool = False


@dataclass(slots=True)
class SampleReader:
    """Goes through the events of a sample."""

    attachments: Attachments
    prompts: Prompts
    spans: dict[str, _Span] = field(default_factory=dict)
    steps: list[_Span] = field(default_factory=lambda: [_Span(MAIN)])
    execution_of_agent: dict[str, str] = field(default_factory=dict)

    def events(self, values: list[Payload]) -> Iterator[Event]:
        """Yield the events of a sample, in their order."""
        events = [as_dict(event) for event in values]
        self._find_executions(events)
        for number, event in enumerate(events):
            time = stated_time(event.get("timestamp"))
            kind = event.get("event")
            if kind == "model":
                yield self._call(event, time)
            elif kind == "tool":
                yield from self._tool(event, time, number)
            elif kind == "subtask":
                yield Kept(what="event subtask", value=_without_events(event), time=time)
                yield from self.events(as_list(event.get("events")))
            elif isinstance(kind, str):
                self._structure(event)
                yield Kept(what=f"event {kind}", value=event, time=time)
            else:
                yield Missing(what=f"event {number}", why="it does not say what it is", time=time)

    def messages(self, values: list[Payload]) -> Iterator[Event]:
        """Yield the calls of a sample that has messages and no events."""
        conversation = Conversation()
        unseen: list[Members] = []
        for message in map(as_dict, self.attachments.put_in(values)):
            members = chat.message_of(message)
            if members["role"] == "tool":
                unseen.append(members)
            if message.get("role") == "assistant":
                unseen.clear()
                response = chat.response_of({"choices": [{"message": message}]})
                model = as_text(message.get("model"))
                yield Call(time="", conversation=conversation, length=len(conversation), response=response, model=model)
            conversation.add(members)
        yield from map(_unseen_result, unseen)

    def _find_executions(self, events: list[Members]) -> None:
        """Note in which tool's execution each agent's span began: the tool names it, or its span is around it."""
        tool_span = ""
        around: dict[str, str] = {}
        for event in events:
            identity = as_text(event.get("id")) or ""
            if event.get("event") == "span_begin":
                around[identity] = as_text(event.get("parent_id")) or ""
                tool_span = identity if event.get("type") == "tool" else tool_span
            elif event.get("event") == "tool" and (execution := as_text(event.get("uuid"))):
                if named := as_text(event.get("agent_span_id")):
                    self.execution_of_agent[named] = execution
                if around.get(tool_span) == as_text(event.get("span_id")):
                    self.execution_of_agent.setdefault(tool_span, execution)
                tool_span = ""

    def _structure(self, event: Members) -> None:
        """Follow the spans, and the steps of older logs."""
        kind, identity = event["event"], as_text(event.get("id")) or ""
        if kind == "span_begin":
            outer = self.spans.get(as_text(event.get("parent_id")) or "", self.steps[-1])
            execution = self.execution_of_agent.get(identity, outer.execution)
            self.spans[identity] = self._inside(event, outer, identity, execution)
        elif kind == "step" and event.get("action") == "begin":
            self.steps.append(self._inside(event, self.steps[-1], f"step-{len(self.steps)}", None))
        elif kind == "step" and len(self.steps) > 1:
            self.steps.pop()

    def _inside(self, event: Members, outer: _Span, identity: str, execution: str | None) -> _Span:
        kind = as_text(event.get("type"))
        if kind not in _AGENTS:
            return _Span(outer.agent, execution, outer.is_agents)
        if kind == "agent" and not outer.is_agents:
            return _Span(outer.agent, execution, is_agents=True)
        agent = Agent(
            name=as_text(event.get("name")),
            agent_id=identity,
            parent_agent_id=outer.agent.agent_id,
            parent_execution_id=execution,
        )
        return _Span(agent, None, is_agents=True)

    def _agent(self, event: Members) -> Agent:
        return self.spans.get(as_text(event.get("span_id")) or "", self.steps[-1]).agent

    def _call(self, event: Members, time: str) -> Call:
        conversation, length = self.prompts.add(event.get("input_refs"), as_list(event.get("input")))
        stated = as_dict(event.get("output"))
        output = as_dict(self.attachments.put_in(stated))
        response = chat.response_of(output)
        error = as_text(event.get("error")) or as_text(stated.get("error"))
        if response is not None and (more := {name: event[name] for name in _CALL if event.get(name)}):
            response["extra"] = {**as_dict(response.get("extra")), **more}
        return Call(
            time=time,
            conversation=conversation if length else None,
            length=length,
            response=response,
            error=None if error is None else {"type": "error", "message": error},
            model=as_text(event.get("model")),
            provider=provider_of(as_text(event.get("model"))),
            tools=as_list(event.get("tools")),
            parameters=without_none(**as_dict(event.get("config")), tool_choice=event.get("tool_choice")),
            agent=self._agent(event),
            duration_seconds=as_number(output.get("time")) or as_number(event.get("working_time")),
            complete=event.get("pending") is not True,
            replayed_from=ReplayedFrom.of_document(as_dict(event.get("metadata")).get("replayed_from")),
        )

    def _tool(self, event: Members, time: str, number: int) -> Iterator[Event]:
        agent = self._agent(event)
        execution = as_text(event.get("uuid")) or joined_id(agent.agent_id or "main", f"tool-{number}")
        error = as_dict(event.get("error"))
        ended = stated_time(event.get("completed")) or (time if "result" in event else None)
        failed = bool(error) or event.get("failed") is True
        yield ToolRun(
            time=time,
            name=as_text(event.get("function")) or "",
            arguments=self.attachments.put_in(event.get("arguments")),
            call_id=as_text(event.get("id")),
            execution_id=execution,
            ended=ended if event.get("pending") is not True else None,
            success=None if ended is None else not failed,
            result=self.attachments.put_in(event.get("result")),
            error=as_text(error.get("message")),
            duration_seconds=as_number(event.get("working_time")),
            agent=agent,
        )
        if inner := as_list(event.get("events")):
            name = as_text(event.get("agent"))
            sub = Agent(name=name, agent_id=execution, parent_agent_id=agent.agent_id, parent_execution_id=execution)
            self.steps.append(_Span(sub if name else agent, execution, is_agents=True))
            yield from self.events(inner)
            self.steps.pop()


def provider_of(model: str | None) -> str | None:
    """Return the provider that is the first part of a model's name there, as in "openai/gpt-4o"."""
    return model.split("/")[0] if model and "/" in model else None


def _unseen_result(message: Members) -> ToolRun:
    """Return the execution of which a message tells that no later call saw."""
    error = as_dict(as_dict(message.get("extra")).get("error"))
    return ToolRun(
        time="",
        name=as_text(message.get("name")) or "",
        call_id=as_text(message.get("call_id")),
        ended="",
        success=not error,
        result=message.get("content"),
        error=as_text(error.get("message")),
    )


def _without_events(event: Members) -> Members:
    return {name: value for name, value in event.items() if name != "events"}
