"""One sample of a log: its events become the events of a run.

Calls to models and tools are in spans. In older logs, they are in steps, or in a tool's event. If an agent's span is
inside the span of another agent, the inner agent is a sub-agent. A scorer that asks a model is a sub-agent, too. If a
sample has no events, its messages are read. An event that is not part of a run is kept unchanged.

A log has each message of its prompts once, and a call states ranges of messages. `SamplePrompts` makes conversations
from the ranges, in time that is linear in the file's size. Older logs have all messages of each prompt. A sample also
has each long text, image or sound only once, under a hash. The sample's messages and events refer to the hash;
`Attachments` replaces these references.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.figures.call_figures import REPLAYED_FROM
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    Members,
    NumberedHistories,
    TimedFact,
    ToolRun,
    joined_id,
)
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.inspect_ai import reading_chats
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import ReplayedFrom

_PREFIXES = ("attachment://", "tc://")
MAX_CHARACTERS = 256 * 1024 * 1024
"""The attachments that replace references in a sample may together have at most this many characters.

An attachment counts once for each reference. Further references stay unchanged.
"""


@dataclass(slots=True)
class Attachments:
    """The attachments of a sample.

    `exceeded` is true if some references were not replaced, because the attachments are too large.
    """

    texts: Mapping[str, Payload]
    characters_left: int = MAX_CHARACTERS
    exceeded: bool = False

    def put_in(self, value: Payload) -> Payload:
        """Return a JSON value in which attachments replace the references to them.

        References to unknown attachments stay.
        """
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.put_in(element) for element in value]
        if isinstance(value, dict):
            return {name: self.put_in(member) for name, member in value.items()}
        return value

    def _text(self, text: str) -> str:
        prefix = next((start for start in _PREFIXES if text.startswith(start)), None)
        if prefix is None:
            return text
        attached = self.texts.get(text.removeprefix(prefix))
        if not isinstance(attached, str):
            return text
        if len(attached) > self.characters_left:
            self.exceeded = True
            return text
        self.characters_left -= len(attached)
        return attached


MAX_MESSAGES = 2_000_000
"""The conversations of a sample may have at most this many messages.

A message that conversations share counts once. A log with more messages is refused.
"""
MAX_NUMBERS = 500_000_000
"""The prompts of a sample may together have at most this many messages. A log with more messages is refused."""
_MAX_RANGES = 100_000


@dataclass(slots=True)
class SamplePrompts:
    """The messages of a sample by number, and the conversations of its calls."""

    pool: list[Payload]
    read: Callable[[Payload], Members]
    _numbers: dict[str, int] = field(default_factory=dict)
    _messages: dict[int, Members] = field(default_factory=dict)
    _histories: NumberedHistories = field(init=False)
    _messages_left: int = MAX_MESSAGES
    _numbers_left: int = MAX_NUMBERS

    def __post_init__(self) -> None:
        self._histories = NumberedHistories(self._message)

    def add(self, references: Payload, inline: list[Payload]) -> tuple[ForeignConversation, int]:
        """Return the conversation of a prompt, and its length.

        `references` are ranges of messages, and `inline` are the messages that follow them.
        """
        ranges = [span for pair in as_list(references)[:_MAX_RANGES] if (span := self._range(pair))]
        length = sum(map(len, ranges)) + len(inline)
        self._numbers_left -= length
        if length > MAX_MESSAGES:
            raise TrajectoryFormatError(f"a prompt of a sample has more than {MAX_MESSAGES} messages")
        if self._numbers_left < 0:
            raise TrajectoryFormatError(f"the prompts of a sample have more than {MAX_NUMBERS} messages")
        numbers = array("q")
        for span in ranges:
            numbers.extend(span)
        numbers.extend(map(self._number, inline))
        conversation, added = self._histories.add(numbers)
        self._messages_left -= added
        if self._messages_left < 0:
            raise TrajectoryFormatError(f"the prompts of a sample have more than {MAX_MESSAGES} messages")
        return conversation, length

    def _range(self, pair: Payload) -> range:
        """Return a pair of numbers as a range that excludes the second number.

        Return an empty range for any other value.
        """
        numbers = [as_int(number) for number in as_list(pair)]
        if len(numbers) != 2 or None in numbers:
            return range(0)
        return range(max(0, numbers[0] or 0), min(len(self.pool), numbers[1] or 0))

    def _number(self, message: Payload) -> int:
        key = json.dumps(message, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.pool)
            self.pool.append(message)
        return self._numbers[key]

    def _message(self, number: int) -> Members:
        if number not in self._messages:
            self._messages[number] = self.read(self.pool[number])
        return self._messages[number]


_AGENTS = {"agent", "scorer"}
_CALL = {"cache", "retries", "role", "traceback"}


@dataclass(frozen=True, slots=True)
class _SampleSpan:
    """The agent that works in a span, and the id of the tool execution that encloses the span, if any."""

    agent: ForeignAgent
    execution: str | None = None
    is_in_agent: bool = False


@dataclass(slots=True)
class SampleReader:
    """Reads the events of a sample."""

    attachments: Attachments
    prompts: SamplePrompts
    spans: dict[str, _SampleSpan] = field(default_factory=dict)
    steps: list[_SampleSpan] = field(default_factory=lambda: [_SampleSpan(MAIN)])
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
                rest = {name: value for name, value in event.items() if name != "events"}
                yield TimedFact.unread(what="event subtask", value=rest, time=time)
                yield from self.events(as_list(event.get("events")))
            elif isinstance(kind, str):
                self._note_span(event)
                yield TimedFact.unread(what=f"event {kind}", value=event, time=time)
            else:
                yield TimedFact.gap(what=f"event {number}", why="it does not name its kind", time=time)

    def messages(self, values: list[Payload]) -> Iterator[Event]:
        """Yield the calls of a sample that has only messages."""
        conversation = ForeignConversation()
        unseen: list[Members] = []
        for message in map(as_dict, self.attachments.put_in(values)):
            members = reading_chats.read_log_message(message)
            if members["role"] == "tool":
                unseen.append(members)
            if message.get("role") == "assistant":
                unseen.clear()
                response = reading_chats.response_of({"choices": [{"message": message}]})
                model = as_text(message.get("model"))
                yield Call(time="", conversation=conversation, length=len(conversation), response=response, model=model)
            conversation.add(members)
        yield from map(_unseen_result, unseen)

    def _find_executions(self, events: list[Members]) -> None:
        """Remember which execution started each agent.

        The tool's event names the agent's span, or the tool's span encloses the agent's span.
        """
        tool_span = ""
        parents: dict[str, str] = {}
        for event in events:
            identity = as_text(event.get("id")) or ""
            if event.get("event") == "span_begin":
                parents[identity] = as_text(event.get("parent_id")) or ""
                if event.get("type") == "tool":
                    tool_span = identity
            elif event.get("event") == "tool" and (execution := as_text(event.get("uuid"))):
                if agent_span := as_text(event.get("agent_span_id")):
                    self.execution_of_agent[agent_span] = execution
                if parents.get(tool_span) == as_text(event.get("span_id")):
                    self.execution_of_agent.setdefault(tool_span, execution)
                tool_span = ""

    def _note_span(self, event: Members) -> None:
        """Remember the agent of the span or step that an event begins.

        Older logs have steps instead of spans. If the event ends a step, the step around it is the current step again.
        """
        kind, identity = event["event"], as_text(event.get("id")) or ""
        if kind == "span_begin":
            outer = self.spans.get(as_text(event.get("parent_id")) or "", self.steps[-1])
            execution = self.execution_of_agent.get(identity, outer.execution)
            self.spans[identity] = self._inside(event, outer, identity, execution)
        elif kind == "step" and event.get("action") == "begin":
            self.steps.append(self._inside(event, self.steps[-1], f"step-{len(self.steps)}", None))
        elif kind == "step" and len(self.steps) > 1:
            self.steps.pop()

    def _inside(self, event: Members, outer: _SampleSpan, identity: str, execution: str | None) -> _SampleSpan:
        kind = as_text(event.get("type"))
        if kind not in _AGENTS:
            return _SampleSpan(outer.agent, execution, outer.is_in_agent)
        if kind == "agent" and not outer.is_in_agent:
            return _SampleSpan(outer.agent, execution, is_in_agent=True)
        agent = ForeignAgent(
            name=as_text(event.get("name")),
            agent_id=identity,
            parent_agent_id=outer.agent.agent_id,
            parent_execution_id=execution,
        )
        return _SampleSpan(agent, None, is_in_agent=True)

    def _agent(self, event: Members) -> ForeignAgent:
        return self.spans.get(as_text(event.get("span_id")) or "", self.steps[-1]).agent

    def _call(self, event: Members, time: str) -> Call:
        conversation: ForeignConversation | None
        conversation, length = self.prompts.add(event.get("input_refs"), as_list(event.get("input")))
        if not length:
            conversation = None
        raw_output = as_dict(event.get("output"))
        output = as_dict(self.attachments.put_in(raw_output))
        response = reading_chats.response_of(output)
        if response is not None and (more := {name: event[name] for name in _CALL if event.get(name)}):
            response["extra"] = {**as_dict(response.get("extra")), **more}
        call = Call(
            time=time,
            conversation=conversation,
            length=length,
            response=response,
            model=as_text(event.get("model")),
            provider=provider_in_name(as_text(event.get("model"))),
            tools=as_list(event.get("tools")),
            parameters=without_none(**as_dict(event.get("config")), tool_choice=event.get("tool_choice")),
            agent=self._agent(event),
            duration_seconds=as_number(output.get("time")) or as_number(event.get("working_time")),
            complete=event.get("pending") is not True,
            replayed_from=ReplayedFrom.of_document(as_dict(event.get("metadata")).get(REPLAYED_FROM)),
        )
        error = as_text(event.get("error")) or as_text(raw_output.get("error"))
        if error is not None:
            call.error = {"type": "error", "message": error}
        return call

    def _tool(self, event: Members, time: str, number: int) -> Iterator[Event]:
        agent = self._agent(event)
        execution = as_text(event.get("uuid")) or joined_id(agent.agent_id or "main", f"tool-{number}")
        error = as_dict(event.get("error"))
        ended: str | None = stated_time(event.get("completed")) or None
        if ended is None and "result" in event:
            ended = time
        success = None
        if ended is not None:
            success = not (error or event.get("failed") is True)
        if event.get("pending") is True:
            ended = None
        yield ToolRun(
            time=time,
            name=as_text(event.get("function")) or "",
            arguments=self.attachments.put_in(event.get("arguments")),
            call_id=as_text(event.get("id")),
            execution_id=execution,
            ended=ended,
            success=success,
            result=self.attachments.put_in(event.get("result")),
            error=as_text(error.get("message")),
            duration_seconds=as_number(event.get("working_time")),
            agent=agent,
        )
        if inner := as_list(event.get("events")):
            name = as_text(event.get("agent"))
            if name:
                agent = ForeignAgent(
                    name=name, agent_id=execution, parent_agent_id=agent.agent_id, parent_execution_id=execution
                )
            self.steps.append(_SampleSpan(agent, execution, is_in_agent=True))
            yield from self.events(inner)
            self.steps.pop()


def provider_in_name(model: str | None) -> str | None:
    """Return the first part of a model's name, which is its provider in a log, as in "openai/gpt-4o"."""
    if model and "/" in model:
        return model.split("/")[0]
    return None


def _unseen_result(message: Members) -> ToolRun:
    """Return the execution of a tool whose result is a message that no later call saw."""
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
