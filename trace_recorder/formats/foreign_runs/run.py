"""A run that another tool recorded: its facts in the order of time, before they become the records of a journal.

A format's module makes facts, and the rest is derived from the journal: which tool result answers which call, steps,
metrics and turns. A `TimedFact` is a fact with its time. A `Call`, a `ToolRun` and an `HttpExchange` become facts when
the journal is written, because they need an id that is unique in the run, or because a tool that runs is two facts.

A value that the source does not state stays None, and is never estimated. Messages, responses, tools and errors are
JSON objects with the members of the document (`docs/format.md`):

    message   {"role", "content", "tool_calls", "call_id", "name", "reasoning", "extra"}
    response  {"content", "reasoning", "tool_calls", "finish_reason", "usage", "model", "id", "blocks", "extra"}
    call      {"call_id", "name", "arguments", "extra"}        an element of "tool_calls"
    usage     {"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
               "reasoning_tokens", "cost", "extra"}
    error     {"type", "message", "status"}

Times are ISO 8601 with an offset, or "" if the source has none. `stated_values.py` converts other forms of times.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.facts import (
    AnnotationFact,
    Fact,
    GapFact,
    LLMInteractionFact,
    RewardFact,
    SourceRecordFact,
    ToolCallFact,
    ToolResultFact,
)
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.storage.items.shared_lists import ListPrefix
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.prompt_comparison import EarlierLists, Numbers
from trace_recorder.values.trajectory import Status

Members = dict[str, Payload]


class ForeignConversation:
    """A history that grows during a run.

    A call refers to the first messages of a conversation, the messages that the model saw. `branch` begins another
    conversation with the same first messages, such as for a rewritten history. Conversations share these messages, and
    each message is stored once.
    """

    def __init__(self, base: ForeignConversation | None = None, length: int = 0) -> None:
        self.base = base
        self.base_length = length
        self.own: list[Members] = []

    def __len__(self) -> int:
        return self.base_length + len(self.own)

    def add(self, message: Members) -> None:
        """Add a message that the model sees from the next call on."""
        self.own.append(message)

    def answer(self, response: Mapping[str, Payload]) -> None:
        """Add a call's response as an assistant's message."""
        members = {name: response.get(name) for name in ("tool_calls", "reasoning")}
        self.add({"role": "assistant", "content": response.get("content")} | without_none(**members))

    def messages(self) -> list[Members]:
        """Return all messages, first the messages that are shared with `base`."""
        parts: list[Sequence[Members]] = []
        conversation, length = self, len(self)
        while True:
            parts.append(conversation.own[: length - conversation.base_length])
            if conversation.base is None:
                return [message for part in reversed(parts) for message in part]
            conversation, length = conversation.base, conversation.base_length

    def branch(self, length: int | None = None) -> ForeignConversation:
        """Return a new conversation that begins with the first `length` messages of this conversation.

        The default of `length` is all messages.
        """
        if length is None:
            length = len(self)
        owner = self
        while owner.base is not None and length <= owner.base_length:  # `owner.base` has all of these messages
            owner = owner.base
        return ForeignConversation(owner, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAgent:
    """The agent that an event belongs to.

    If the agent is a sub-agent, `parent_execution_id` is the id of the `ToolRun` that started it.
    """

    name: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    parent_execution_id: str | None = None

    def members(self) -> Members:
        """Return the members of a record that name the agent."""
        return without_none(
            agent=self.name,
            agent_id=self.agent_id,
            parent_agent_id=self.parent_agent_id,
            parent_execution_id=self.parent_execution_id,
        )


MAIN = ForeignAgent()


@dataclass(slots=True, kw_only=True)
class Call:
    """One call to a model, which saw the first `length` messages of `conversation`.

    `response` is None if there was no response. `time` is the time of the request, or the time of the answer if the
    source states only that. Durations are in seconds. `conversation` is None if no history is known. `api` is the
    dialect that the source states. `api` is None for a call that was recorded by hand. `api` is "" if the source states
    no dialect; the journal then names the import format. If a replay gave the answer, `replayed_from` is the answer's
    origin.
    """

    time: str
    conversation: ForeignConversation | None
    api: str | None = ""
    length: int = 0
    response: Members | None = None
    error: Members | None = None
    provider: str | None = None
    model: str | None = None
    tools: Sequence[Payload] = ()
    parameters: Members = field(default_factory=dict)
    interaction_id: str | None = None
    agent: ForeignAgent = MAIN
    duration_seconds: float | None = None
    time_to_first_token_seconds: float | None = None
    stream: bool | None = None
    complete: bool = True
    ended_by: str | None = None
    replayed_from: ReplayedFrom | None = None

    def set_usage(self, usage: Members) -> None:
        """Set the token counts of the response, if the call has a response and there are counts."""
        if self.response is not None and usage:
            self.response["usage"] = usage

    def fact(self, interaction_id: str, format_name: str) -> LLMInteractionFact:
        """Return the call as a fact without its body. `format_name` names the import format."""
        api, origin = self.api, None
        if api == "":
            api = format_name
        if self.replayed_from is not None:
            origin = self.replayed_from.to_document()
        return LLMInteractionFact(
            **self.agent.members(),
            interaction_id=interaction_id,
            provider=self.provider,
            model=self.model,
            api=api,
            duration_seconds=self.duration_seconds,
            time_to_first_token_seconds=self.time_to_first_token_seconds,
            stream=self.stream,
            complete=None if self.complete else False,
            replayed_from=origin,
            response=self.response,
            error=self.error,
            ended_by=self.ended_by,
        )


@dataclass(slots=True, kw_only=True)
class HttpExchange:
    """One HTTP exchange with a model, from a source that recorded HTTP.

    The journal gets the records that capture would write for the exchange. `request` and `response` are decoded bodies.
    `response` is None if no response came. `headers` are all headers that the source has. Only the headers on the
    allow-list are written, and keys in any header are masked wherever they appear. `answer` is the joined answer of a
    stream, if the source lacks the stream's body. `error` says why the response is missing or incomplete.
    """

    time: str
    endpoint: Endpoint
    url: str
    request: bytes
    method: str = "POST"
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    status: int | None = None
    response_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    response: bytes | None = None
    answer: Payload = None
    error: Members | None = None
    duration_seconds: float | None = None
    ended: str = ""
    interaction_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ToolRun:
    """One execution of a tool.

    A ToolRun is needed if the source has times or a full result besides the message in the conversation, or if no later
    call saw the result. Other results need no ToolRun, because the fold finds them in the conversation. `ended` is the
    time of the result, or None if there is no result.
    """

    time: str
    name: str
    arguments: Payload = None
    call_id: str | None = None
    execution_id: str | None = None
    ended: str | None = None
    success: bool | None = None
    result: Payload = None
    error: str | None = None
    duration_seconds: float | None = None
    agent: ForeignAgent = MAIN

    def began_fact(self, execution_id: str) -> ToolCallFact:
        """Return the beginning of the execution as a fact."""
        return ToolCallFact(**self._members(execution_id), arguments=self.arguments)

    def ended_fact(self, execution_id: str) -> ToolResultFact:
        """Return the result of the execution as a fact."""
        error: Members | None = None
        if self.error is not None:
            error = {"type": "", "message": self.error}
        return ToolResultFact(
            **self._members(execution_id),
            success=self.success,
            duration_seconds=self.duration_seconds,
            result=self.result,
            error=error,
        )

    def _members(self, execution_id: str) -> Members:
        return {"execution_id": execution_id, "name": self.name, "call_id": self.call_id, **self.agent.members()}


@dataclass(frozen=True, slots=True)
class TimedFact:
    """A fact that the source states, and its time.

    If the fact has a body with lists of messages, `lists` has these lists by their names. A list that the source lacks
    is None.
    """

    fact: Fact
    time: str = ""
    lists: Mapping[str, ListPrefix | None] = field(default_factory=dict)

    @classmethod
    def annotation(cls, key: str, value: Payload, time: str = "") -> TimedFact:
        """Return a fact about the run as a whole."""
        return cls(AnnotationFact(key=key, value=value), time)

    @classmethod
    def summary(cls, step_number: int, value: Payload, time: str = "") -> TimedFact:
        """Return the source's summary of a step."""
        return cls(AnnotationFact(lakeview_step=step_number, value=value), time)

    @classmethod
    def reward(
        cls,
        name: str,
        value: float,
        weight: float = 1.0,
        step_number: int | None = None,
        explanation: str | None = None,
        time: str = "",
    ) -> TimedFact:
        """Return a reward of the run, or of one step."""
        fact = RewardFact(name=name, value=value, weight=weight, step_number=step_number, explanation=explanation)
        return cls(fact, time)

    @classmethod
    def gap(cls, what: str, why: str, time: str = "") -> TimedFact:
        """Return a part of the source that cannot be read. `what` names the part, and `why` is the reason."""
        return cls(GapFact(time=stated_time(time), what=what, why=why), time)

    @classmethod
    def unread(cls, what: str, value: Payload, time: str = "") -> TimedFact:
        """Return a part of the source for which a trajectory has no member. The journal keeps `value` unchanged."""
        return cls(SourceRecordFact(what=what, value=value), time)


UNSEEN = "unseen message"
"""The `what` of a message in a `SourceRecordFact` that no call saw."""
UNANSWERED = "unanswered"
"""The key of the annotation with the user's messages after the last call, such as prompts that the model never saw."""
Event = Call | HttpExchange | ToolRun | TimedFact


@dataclass(slots=True, kw_only=True)
class ForeignRun:
    """One run of another tool.

    `events` are in the order of time. `identity` is the id that the source gives the run. `source` has facts about the
    tool and its session, such as the tool's version. `recognition.py` sets `format`. `status` is "unknown" if the
    source does not say how the run ended. `executions` are the executions whose results are messages. An import ignores
    `executions`, because the fold finds these results. `proxy/joining.py` adds them, with their times, to a run that
    the proxy recorded. `is_fork` is True if the run begins with a copy of another session's messages. `parent` is the
    id of the other run that a fork continues, or whose agent started this one. `session` is the source's id for all
    runs that belong together, if the source has such an id beside that of the run.
    """

    identity: str
    format: str = ""
    is_fork: bool = False
    events: list[Event] = field(default_factory=list)
    executions: list[ToolRun] = field(default_factory=list)
    parent: str | None = None
    session: str | None = None
    task: str | None = None
    provider: str | None = None
    model: str | None = None
    max_steps: int | None = None
    start_time: str = ""
    end_time: str = ""
    status: Status = "unknown"
    success: bool | None = None
    final_result: Payload = None
    error: Members | None = None
    source: Members = field(default_factory=dict)
    metadata: Members = field(default_factory=dict)

    def times(self) -> tuple[str, str]:
        """Return the times of the start and the end.

        If the source does not state the start, return the first time of an event. If the source does not state the end,
        return the latest time of an event, or "" if that equals the start.
        """
        ends = (event.ended or "" for event in self.events if isinstance(event, HttpExchange | ToolRun))
        times = [time for time in chain((event.time for event in self.events), ends) if time]
        start = self.start_time or next(iter(times), "")
        end = self.end_time
        if not end and (last := max(times, default="")) != start:
            end = last
        return start, end


_MAX_OPEN = 16
"""A prompt is compared with at most this many conversations: those that grew last. A run seldom has more sub-agents."""


@dataclass(slots=True)
class NumberedHistories:
    """The conversations of a run whose source repeats the whole history with each call, as spans and call logs do.

    A prompt continues the conversation with which it has the longest common beginning, so each message is stored once.
    A prompt is a list of message numbers, and the work is linear in the size of the source. `read` returns a message by
    its number.
    """

    read: Callable[[int], Members]
    _known: EarlierLists[ForeignConversation] = field(default_factory=lambda: EarlierLists(_MAX_OPEN))

    def add(self, numbers: Numbers) -> tuple[ForeignConversation, int]:
        """Return a conversation that begins with the messages `numbers`, and how many messages were added to it.

        It is the known conversation that shares the longest beginning with `numbers`. If that conversation continues
        differently, it is a new branch of it.
        """
        conversation, shared = self._known.longest_beginning(numbers)
        if conversation is None:
            conversation = ForeignConversation()
        elif shared < min(len(conversation), len(numbers)):
            conversation = conversation.branch(shared)
        new = numbers[len(conversation) :]
        for number in new:
            conversation.add(self.read(number))
        if new:
            self._known.add(conversation, numbers)
        return conversation, len(new)


@dataclass(slots=True)
class Histories:
    """The conversations of a run, found by the messages of its calls."""

    _messages: list[Members] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _histories: NumberedHistories = field(init=False)

    def __post_init__(self) -> None:
        self._histories = NumberedHistories(self._messages.__getitem__)

    def add(self, messages: Sequence[Members]) -> tuple[ForeignConversation, int]:
        """Return a conversation that begins with `messages`, and the length of `messages`."""
        conversation, _ = self.add_counted(messages)
        return conversation, len(messages)

    def add_counted(self, messages: Sequence[Members]) -> tuple[ForeignConversation, int]:
        """Return a conversation that begins with `messages`, and how many messages were added to it."""
        return self._histories.add(array("q", map(self._number, messages)))

    def _number(self, message: Members) -> int:
        number = self._numbers.setdefault(json_digest(message), len(self._messages))
        if number == len(self._messages):
            self._messages.append(message)
        return number


def joined_id(*parts: str) -> str:
    """Join parts by hyphens. Each part is masked first, because a secret behind a hyphen may not be recognised."""
    return "-".join(map(default_redactor, parts))
