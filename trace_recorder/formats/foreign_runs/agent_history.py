"""The messages and calls of one agent, for formats that list line by line what happened in a session.

An answer of the model is a call that saw the messages before it. A tool's result is a message. If no later call saw the
result, the run gets an execution of the tool with the result. Messages of the user after the last call are an
annotation of the run. Any other message that no call saw is kept unchanged. A session that goes back to an earlier
message continues on a new branch of the conversation. A session that was compacted continues with a new conversation.

`AnswerParts` joins the parts of an answer that come as a stream of events. `add_message` and `add_answer` read messages
that are made of Anthropic's blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge

from trace_recorder.dialects import anthropic_messages
from trace_recorder.dialects.blocks import Blocks
from trace_recorder.dialects.call_ids import CallNumbering
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    UNANSWERED,
    UNSEEN,
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.stated_values import joined_text, success_of
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall
from trace_recorder.values.structs import replace

MAX_BRANCHES = 500
"""A session may go back at most this many times. After that, the run gets a gap.

Each branch copies the numbers of its items, so very many branches would take too much memory.
"""


@dataclass(slots=True)
class Position:
    """A point to which a session may go back: the first `length` messages of a conversation.

    The results that follow a message belong to the position of this message.
    """

    conversation: ForeignConversation
    length: int


class AgentHistory:
    """The conversation of one agent so far. The agent's calls and executions are appended to `events`."""

    def __init__(self, events: list[Event], agent: ForeignAgent = MAIN) -> None:
        self.events = events
        self.agent = agent
        self.conversation = ForeignConversation()
        self.position = Position(self.conversation, 0)
        self._numbering = CallNumbering()
        self._calls: dict[str, tuple[Members, str]] = {}
        """The tool calls by their ids, each with its time."""
        self._results: dict[str, tuple[Members, str]] = {}
        """The results of tools by the ids of their calls, each with its time."""
        self._unseen: list[tuple[Members, str]] = []
        self._branches = 0

    @property
    def made_up_ids(self) -> int:
        """The number of tool calls with a made-up id."""
        return self._numbering.made_up

    def add(self, message: Message, time: str, *, has_event: bool = False) -> None:
        """Add a message that the next call sees.

        `has_event` is True if the run also has an event for this result.
        """
        members = self._numbering.number(message).to_document()
        self.conversation.add(members)
        if not has_event:
            self._unseen.append((members, time))
        if message.role == "tool":
            self._results.setdefault(message.call_id or "", (members, time))
            self.position.length = len(self.conversation)
        else:
            self.position = Position(self.conversation, len(self.conversation))

    def add_all(self, messages: Iterable[Message], time: str) -> None:
        """Add messages that the next call sees."""
        for message in messages:
            self.add(message, time)

    def call(self, time: str, response: LLMResponse, answer: Message | None = None) -> Call:
        """Add a call with its response.

        `answer` is the response as a message. It is needed only if the response has more than content, reasoning and
        tool calls.
        """
        self._unseen.clear()
        message = answer or Message("assistant", response.content, reasoning=response.reasoning)
        numbered = self._numbering.number(replace(message, tool_calls=response.tool_calls))
        call = self._add_call(time)
        call.response = replace(response, tool_calls=numbered.tool_calls).to_document()
        call.model = response.model
        for tool_call in numbered.tool_calls:
            self._calls[tool_call.call_id] = tool_call.to_document(), time
        self.conversation.add(numbered.to_document())
        self.position = Position(self.conversation, len(self.conversation))
        return call

    def add_calls(self, call: Call, message: Message, time: str) -> None:
        """Add tool calls to the answer of a call. The program sends them back as a message of their own.

        The results before this message become executions, because the fold reads only those at the end of a prompt.
        """
        self._add_unseen()
        numbered = self._numbering.number(message)
        documents = [tool_call.to_document() for tool_call in numbered.tool_calls]
        for tool_call, document in zip(numbered.tool_calls, documents, strict=True):
            self._calls[tool_call.call_id] = document, time
        response = as_dict(call.response)
        call.response = {**response, "tool_calls": [*as_list(response.get("tool_calls")), *documents]}
        self.conversation.add(numbered.to_document())
        self.position = Position(self.conversation, len(self.conversation))

    def failed_call(self, time: str, error: Members | None) -> Call:
        """Add a call whose answer is not in the file, with the call's `error` if the file states the error."""
        self._unseen.clear()
        call = self._add_call(time)
        call.error = error
        return call

    def _add_call(self, time: str) -> Call:
        call = Call(time=time, conversation=self.conversation, length=len(self.conversation), agent=self.agent)
        self.events.append(call)
        return call

    def restart(self, kept: Iterable[Members] = ()) -> None:
        """Continue with a new conversation that begins with the messages `kept`, as after a compaction."""
        self._add_unseen()
        self.conversation = ForeignConversation()
        for message in kept:
            self.conversation.add(message)
        self.position = Position(self.conversation, len(self.conversation))

    def return_to(self, position: Position) -> None:
        """Continue from an earlier position.

        If the session goes back more than `MAX_BRANCHES` times, add a gap instead.
        """
        if position is self.position:
            return
        self._add_unseen()
        self._branches += 1
        if self._branches > MAX_BRANCHES:
            if self._branches == MAX_BRANCHES + 1:
                self.events.append(
                    TimedFact.gap(
                        what="the branches of a session that goes back",
                        why=f"it goes back more than {MAX_BRANCHES} times",
                    )
                )
            return
        self.conversation = position.conversation.branch(position.length)
        self.position = Position(self.conversation, len(self.conversation))

    def finish(self) -> None:
        """Append to the events the messages that no call saw.

        If the agent is the main agent, the user's prompts among these messages become an annotation.
        """
        prompts = [(message, time) for message, time in self._unseen if message["role"] == "user"]
        if prompts and self.agent == MAIN:
            self._unseen = [(message, time) for message, time in self._unseen if message["role"] != "user"]
            messages = [message for message, _ in prompts]
            self.events.append(TimedFact.annotation(key=UNANSWERED, value=messages, time=prompts[-1][1]))
        self._add_unseen()

    def _add_unseen(self) -> None:
        """Append to the events the messages that no call saw.

        Tool results become executions, and other messages stay unchanged.
        """
        for message, time in self._unseen:
            if message["role"] == "tool":
                self.events.append(self._execution(message, time))
            else:
                self.events.append(TimedFact.unread(what=UNSEEN, value=message, time=time))
        self._unseen.clear()

    def execution_of(self, call_id: str) -> ToolRun | None:
        """Return an execution for a tool call, such as a call that started a sub-agent.

        Return None for an unknown id.
        """
        if call_id in self._results:
            return self._execution(*self._results[call_id])
        if call_id not in self._calls:
            return None
        call, time = self._calls[call_id]
        name = as_text(call.get("name")) or ""
        return ToolRun(time=time, name=name, arguments=call.get("arguments"), call_id=call_id, agent=self.agent)

    def executions(self) -> list[ToolRun]:
        """Return an execution for each tool call that has a result.

        The times of an execution are those that the source states for the call and the result.
        """
        return [self._execution(*self._results[call_id]) for call_id in self._calls if call_id in self._results]

    def _execution(self, result: Members, time: str) -> ToolRun:
        call_id = as_text(result.get("call_id"))
        call, call_time = self._calls.get(call_id or "", ({}, time))
        failed = as_dict(result.get("extra")).get("is_error")
        content, error = result.get("content"), None
        if failed is True:
            content, error = None, joined_text(content, "\n") or ""
        return ToolRun(
            time=call_time,
            name=as_text(call.get("name")) or as_text(result.get("name")) or "",
            arguments=call.get("arguments"),
            call_id=call_id,
            ended=time,
            success=success_of(failed),
            result=content,
            error=error,
            agent=self.agent,
        )


@contextmanager
def given_by_another_session(run: ForeignRun, events: list[Event]) -> Iterator[None]:
    """Read a part of a session that was copied from another session, such as the beginning of a fork.

    The copied messages are in later prompts. The copied calls and executions belong to the other session. So they are
    not events of this run, and the run's model and status do not come from them.
    """
    run.is_fork = True
    begin = len(events)
    facts = run.start_time, run.model, run.provider, run.status, run.error, run.final_result
    yield
    del events[begin:]
    run.start_time, run.model, run.provider, run.status, run.error, run.final_result = facts


def in_time_order(*lists: list[Event]) -> list[Event]:
    """Merge lists of events by their times.

    Events of one list keep their order, even if their times are out of order.
    """
    return [event for _, event in merge(*map(_with_keys, lists), key=lambda pair: pair[0])]


def _with_keys(events: list[Event]) -> Iterator[tuple[str, Event]]:
    latest = ""
    for event in events:
        latest = max(latest, event.time)
        yield latest, event


class AnswerParts:
    """The answer that a stream of events is delivering: its parts so far, and the results of its tools.

    `close` adds the call that gave the answer. The stream does not say where an answer ends. The first part after a
    result begins a new answer. In formats whose results may come before an answer has ended, the format's module
    decides which parts begin a new answer.
    """

    def __init__(self, history: AgentHistory) -> None:
        self.history = history
        self.has_tools = False
        self.has_results = False
        self._begin()

    def _begin(self) -> None:
        self.has_tools = self.has_results = False
        self._time: str | None = None
        self._blocks = Blocks()
        self._calls: list[ToolCall] = []
        self._others: list[Payload] = []
        self._results: list[tuple[Message, str]] = []

    def add_text(self, text: str | None, time: str = "") -> None:
        """Add a text of the answer."""
        self._note_time(time)
        self._blocks.add_text(text)

    def add_reasoning(self, text: str | None, time: str = "") -> None:
        """Add a thought of the answer."""
        self._note_time(time)
        self._blocks.add_reasoning(text)

    def add_other(self, part: Payload, time: str = "") -> None:
        """Add a part of the answer that has no text."""
        self._note_time(time)
        self._blocks.add_other(len(self._others))
        self._others.append(part)

    def add_call(self, call: ToolCall, time: str = "") -> None:
        """Add a tool call."""
        self._note_time(time)
        self.has_tools = True
        self._blocks.add_call()
        self._calls.append(call)

    def add_result(self, result: Message, time: str = "") -> None:
        """Add the result of a tool, which the next call sees."""
        self.has_results = True
        self._results.append((result, time))

    def _note_time(self, time: str) -> None:
        if self._time is None:
            self._time = time

    def close(self) -> Call | None:
        """Add the call that gave the answer, and the results of its tools. Return None if there are no parts."""
        call = None
        if self._time is not None:
            response = LLMResponse(
                self._blocks.all_text(),
                reasoning=self._blocks.all_reasoning(),
                tool_calls=tuple(self._calls),
                extra={"content": self._others} if self._others else {},
                interleaved=self._blocks.interleaved(self._calls),
            )
            call = self.history.call(self._time, response)
        for result, time in self._results:
            self.history.add(result, time)
        self._begin()
        return call


def add_message(history: AgentHistory, content: Payload, time: str, extra: Members | None = None) -> None:
    """Add a user's message. Tool results in it become messages of their own. Each added message gets `extra`."""
    messages = anthropic_messages.read_message({"role": "user", "content": content})
    history.add_all([replace(message, extra=message.extra | (extra or {})) for message in messages], time)


def add_answer(history: AgentHistory, message: Members, time: str) -> Call:
    """Add a call with an assistant's message as its response."""
    answer = {**message, "role": "assistant"}
    response = anthropic_messages.read_response(answer, history.made_up_ids)
    messages = anthropic_messages.read_message({"role": "assistant", "content": answer.get("content")})
    return history.call(time, response, last_answer(messages))


def last_answer(messages: list[Message]) -> Message:
    """Return the last of the messages as which an answer was read, or an empty message if there are none."""
    return messages[-1] if messages else Message("assistant")


def first_text(content: Payload) -> str:
    """Return the first text of a message."""
    if isinstance(content, str):
        return content
    texts = (as_text(as_dict(part).get("text")) for part in as_list(content))
    return next((text for text in texts if text), "")
