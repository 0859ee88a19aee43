"""A run as another tool's file states it: facts in the order of time, before they become the records of a journal.

A format's module fills these values and decides nothing more: which tool result answers which call, steps, metrics and
turns are derived from the journal. What the source does not say stays None, and is never estimated. Messages,
responses, tools and errors are JSON objects with the members of the document (`docs/format.md`):

    message   {"role", "content", "tool_calls", "call_id", "name", "reasoning", "extra"}
    response  {"content", "reasoning", "tool_calls", "finish_reason", "usage", "model", "id", "blocks", "extra"}
    call      {"call_id", "name", "arguments", "extra"}        an element of "tool_calls"
    usage     {"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
               "reasoning_tokens", "cost", "extra"}
    error     {"type", "message", "status"}

Times are ISO 8601 with an offset, or "" where the source has none (`stated_values.py` converts others).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.prompt_relation import EarlierLists, Numbers
from trace_recorder.values.trajectory import Status

Members = dict[str, Payload]


class Conversation:
    """A history that grows; a call refers to its first messages.

    `fork` begins another one with the same first messages, as after a compaction, a rewritten history or in a side
    branch. Messages are shared and stored once.
    """

    def __init__(self, base: Conversation | None = None, length: int = 0) -> None:
        self.base = base
        self.base_length = length
        self.own: list[Members] = []

    def __len__(self) -> int:
        return self.base_length + len(self.own)

    def add(self, message: Members) -> None:
        """Add a message that the model sees from the next call on."""
        self.own.append(message)

    def answer(self, response: Mapping[str, Payload]) -> None:
        """Add what a call's response said as an assistant's message."""
        said = {name: response.get(name) for name in ("tool_calls", "reasoning")}
        self.add({"role": "assistant", "content": response.get("content")} | without_none(**said))

    def messages(self) -> list[Members]:
        """Return all messages, those of its base first."""
        found: list[Sequence[Members]] = []
        one, length = self, len(self)
        while True:
            found.append(one.own[: length - one.base_length])
            if one.base is None:
                return [message for part in reversed(found) for message in part]
            one, length = one.base, one.base_length

    def fork(self, length: int | None = None) -> Conversation:
        """Return a conversation that begins with the first `length` messages of this one; by default, with all."""
        length = len(self) if length is None else length
        base, at = self, length
        while base.base is not None and at <= base.base_length:  # refer to the one that has these messages
            base = base.base
        return Conversation(base, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Which agent an event belongs to. `parent_execution_id` is the `ToolRun` in which a sub-agent was started."""

    name: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    parent_execution_id: str | None = None

    def members(self) -> Members:
        """Return the members of a record that say so."""
        return without_none(
            agent=self.name,
            agent_id=self.agent_id,
            parent_agent_id=self.parent_agent_id,
            parent_execution_id=self.parent_execution_id,
        )


MAIN = Agent()


@dataclass(slots=True, kw_only=True)
class Call:
    """One call to a model: it saw the first `length` messages of `conversation`.

    `response` is None if there was none. `time` is when it was requested, or if the source knows only when it was
    answered, that; durations are in seconds. A call without any known history has `conversation` None. `api` is the
    dialect that the source states for it; None is a call recorded by hand, "" stands for the name of the format.
    `replayed_from` is where the answer of a call is from that was not made.
    """

    time: str
    conversation: Conversation | None
    api: str | None = ""
    length: int = 0
    response: Members | None = None
    error: Members | None = None
    provider: str | None = None
    model: str | None = None
    tools: Sequence[Payload] = ()
    parameters: Members = field(default_factory=dict)
    interaction_id: str | None = None
    agent: Agent = MAIN
    duration_seconds: float | None = None
    time_to_first_token_seconds: float | None = None
    stream: bool | None = None
    complete: bool = True
    ended_by: str | None = None
    replayed_from: ReplayedFrom | None = None


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One HTTP exchange with a model, as a source that recorded the wire has it. It is written as capture writes one.

    `request` and `response` are bodies, with their encodings undone; `response` is None if none came. Headers are as
    they came: only those that a recording keeps are written, and keys among them are masked wherever they appear.
    `answer` is the answer that a stream makes, from a source that has no `response` for it. `error` says why there is
    no response, or why it is not complete.
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
    """One execution of a tool that the source states apart from the conversation, with its times or its full result.

    Where the source has results only as messages in the conversation, no ToolRun is made: the fold finds them there. A
    result that no later call saw is stated here. `ended` is the time of the result; None if there is none.
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
    agent: Agent = MAIN


@dataclass(slots=True, kw_only=True)
class Step:
    """A step that the source itself states. `members` are those of `agent_step` records.

    Its messages are the first `length` of `conversation`, if the source has any for it.
    """

    time: str
    step_number: int
    state: str | None = None
    conversation: Conversation | None = None
    length: int = 0
    members: Members = field(default_factory=dict)
    agent: Agent = MAIN


@dataclass(slots=True, kw_only=True)
class Annotation:
    """Something that is said of the run as a whole."""

    key: str
    value: Payload
    time: str = ""


@dataclass(slots=True, kw_only=True)
class Summary:
    """A summary of the step with this number."""

    step_number: int
    value: Payload
    time: str = ""


@dataclass(slots=True, kw_only=True)
class Score:
    """A reward of the run, or of one step."""

    name: str
    value: float
    weight: float = 1.0
    step_number: int | None = None
    explanation: str | None = None
    time: str = ""


@dataclass(slots=True, kw_only=True)
class Missing:
    """A part of the source that cannot be read: what, and why."""

    what: str
    why: str
    time: str = ""


@dataclass(slots=True, kw_only=True)
class Kept:
    """A part of the source that has no place in a run, as it is there. It stays in the journal, under its kind."""

    what: str
    value: Payload
    time: str = ""


UNSEEN = "unseen message"
"""Under which kind a message is kept that no call saw."""
UNANSWERED = "unanswered"
"""The annotation that has the messages of the user after the last call: prompts that wait, or an interruption."""
Event = Call | Exchange | ToolRun | Step | Annotation | Summary | Score | Missing | Kept


@dataclass(slots=True, kw_only=True)
class ForeignRun:
    """One run of another tool. `events` are in the order of time.

    `identity` is the id that the source gives it, `source` what the tool says of itself: its version, the session's
    directory. `format` is set by `formats.py`. `status` is "unknown" where the source does not say how the run ended.
    `executions` are those whose results are messages. An import leaves them out, as the fold finds these results; they
    are for a run that was recorded at the same time (`proxy/joining.py`), for which their times are news.
    """

    identity: str
    format: str = ""
    events: list[Event] = field(default_factory=list)
    executions: list[ToolRun] = field(default_factory=list)
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
        """Return when it began and ended: as the source states, or else the times of its first and last event.

        If the source has a single time, it is not known when the run ended.
        """
        ends = (event.ended or "" for event in self.events if isinstance(event, Exchange | ToolRun))
        found = [time for time in chain((event.time for event in self.events), ends) if time]
        start = self.start_time or (found[0] if found else "")
        last = max(found, default="")
        return start, self.end_time or ("" if last == start else last)


_MAX_OPEN = 16
"""How many conversations are compared with; a run seldom has more sub-agents at once."""


@dataclass(slots=True)
class NumberedHistories:
    """The conversations of a run, by the numbers of their messages. `read` returns a message by its number."""

    read: Callable[[int], Members]
    _known: EarlierLists[Conversation] = field(default_factory=lambda: EarlierLists(_MAX_OPEN))

    def add(self, numbers: Numbers) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and how many of them had to be added to it.

        They continue the conversation that has most of them, or a fork of it where they differ.
        """
        conversation, shared = self._known.longest_beginning(numbers)
        if conversation is None:
            conversation = Conversation()
        elif shared < min(len(conversation), len(numbers)):
            conversation = conversation.fork(shared)
        new = numbers[len(conversation) :]
        for number in new:
            conversation.add(self.read(number))
        if new:
            self._known.add(conversation, numbers)
        return conversation, len(new)


@dataclass(slots=True)
class Histories:
    """The conversations of a run, by the messages of its calls."""

    _messages: list[Members] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _histories: NumberedHistories = field(init=False)

    def __post_init__(self) -> None:
        self._histories = NumberedHistories(self._messages.__getitem__)

    def add(self, messages: Sequence[Members]) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and their number."""
        conversation, _ = self.add_counted(messages)
        return conversation, len(messages)

    def add_counted(self, messages: Sequence[Members]) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and how many of them had to be added to it."""
        return self._histories.add(array("q", map(self._number, messages)))

    def _number(self, message: Members) -> int:
        number = self._numbers.setdefault(json_digest(message), len(self._messages))
        if number == len(self._messages):
            self._messages.append(message)
        return number


def joined_id(*parts: str) -> str:
    """Join parts by hyphens. Each part is masked first: behind a hyphen, a key may not be recognized as one."""
    return "-".join(map(default_redactor, parts))
