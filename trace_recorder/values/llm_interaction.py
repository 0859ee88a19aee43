"""An LLM interaction: one request to a model with its response, its attempts, and its error if it failed.

The value does not store large parts, such as the messages of the request. An `InteractionSource` reads them on demand.
`reading/interactions.py` has the source that reads them from a journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from trace_recorder.clocks import parse_time, seconds_between
from trace_recorder.values.document_members import (
    Always,
    Count,
    Integer,
    NotInDocument,
    Seconds,
    StatedTime,
    Text,
    render,
    renderer_of,
)
from trace_recorder.values.message_table import SharedSequence
from trace_recorder.values.messages import (
    NO_RESPONSE,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolResult,
    without_none,
)
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.short_forms import call_repr, folded_rows, table
from trace_recorder.values.structs import Struct, equal_but, field


class ErrorInfo(Struct, frozen=True, gc=False):
    """An error.

    `type` is the class of an exception, or the provider's name for the error. `status` is the HTTP status, if there was
    one.
    """

    type: str
    message: Text
    status: int | None = None

    to_document = render


def stated_error(error: Payload) -> ErrorInfo | None:
    """Make an `ErrorInfo` from the error in a record. Return None if `error` is not an object."""
    if not isinstance(error, dict):
        return None
    status = error.get("status")
    if type(status) is not int:
        status = None
    return ErrorInfo(str(error.get("type") or "error"), str(error.get("message") or ""), status)


class Websocket(Struct, frozen=True, gc=False):
    """A websocket to a model.

    `api` is the dialect of its events. `timestamp` is when the handshake ended, and `duration_seconds` is how long the
    websocket was open. `status` is that of the handshake. If the server refused the websocket, or the handshake failed,
    `error` is the exception. `code` and `reason` are those of the closing handshake, and `ended_by` says who or what
    ended the websocket. `sent` and `received` count messages. `warm_ups` counts the requests that only prepared the
    server for later ones. Each member is missing if the journal does not state it.
    """

    connection_id: str
    api: str | None = None
    provider: str | None = None
    model: str | None = None
    url: str | None = None
    timestamp: str | None = None
    status: int | None = None
    error: ErrorInfo | None = None
    duration_seconds: Seconds | None = None
    code: int | None = None
    reason: Text | None = None
    ended_by: Text | None = None
    sent: Count | None = None
    received: Count | None = None
    warm_ups: Count = 0

    to_document = render


class Attempt(Struct, frozen=True, gc=False):
    """One HTTP exchange of an interaction.

    `inferred` is True if the recorder inferred that the exchange belongs to the interaction, because nothing states so.
    """

    number: Count
    timestamp: StatedTime
    status: int | None = None
    error: ErrorInfo | None = None
    duration_seconds: Seconds | None = None
    headers: dict[str, str] = field(default_factory=dict)
    inferred: bool = False

    to_document = render


def call_seconds(attempts: Sequence[Attempt], recorded: float | None) -> float | None:
    """Return how many seconds a call took with all its attempts and the pauses between them.

    Return `recorded` if there are fewer than two attempts, or if the newest attempt has no duration. If the clock was
    set back between two attempts, return the sum of their durations.
    """
    if len(attempts) < 2:
        return recorded
    newest = attempts[-1].duration_seconds
    if newest is None:
        return recorded
    apart = seconds_between(attempts[0].timestamp, attempts[-1].timestamp) or 0.0
    earlier = sum(attempt.duration_seconds or 0.0 for attempt in attempts[:-1])
    return round(newest + max(apart, earlier), 6)


def pause_between(before: Attempt, attempt: Attempt) -> float | None:
    """Return the seconds from the end of `before` to the beginning of `attempt`, or None if they are unknown."""
    apart = seconds_between(before.timestamp, attempt.timestamp)
    if apart is None or before.duration_seconds is None:
        return None
    return max(0.0, round(apart - before.duration_seconds, 6))


class InteractionSource(Protocol):
    """Reads the large parts of an interaction on demand."""

    def request(self) -> RequestReading:
        """Return the request as the reader of its dialect understands it."""

    def request_without_messages(self) -> RequestReading:
        """Return the request. Its messages may be missing, if the source can then avoid reading them."""

    @property
    def new_tool_results(self) -> list[ToolResult]:
        """The tool results of the request that follow the model's last message."""

    def has_request(self) -> bool:
        """Return whether the request is known. Return False if a record that it needs is damaged."""

    def raw_request(self) -> Payload:
        """Return the JSON that was sent, or None if it is not known."""

    def raw_response(self) -> Payload:
        """Return the JSON of the response, assembled if it was a stream, or None if it is not known."""

    def raw_stream(self) -> str | None:
        """Return the text of the stream, or None if there was no stream or its text is not known."""

    def raw_chunks(self) -> tuple[tuple[float, bytes], ...] | None:
        """Return the chunks of the stream, each with the seconds since the request.

        Return None if the chunks are not known.
        """


class WithoutRawData:
    """The base class of sources without a journal. Such sources do not have the raw JSON."""

    __slots__ = ()

    def raw_request(self) -> Payload:
        """Return None."""
        return None

    def raw_response(self) -> Payload:
        """Return None."""
        return None

    def raw_stream(self) -> str | None:
        """Return None."""
        return None

    def raw_chunks(self) -> None:
        """Return None."""
        return


class LLMInteraction(Struct, frozen=True, gc=False, kw_only=True):
    """One request to a model with its response.

    `api` is the wire dialect ("openai-chat", …), or None if the agent recorded the interaction by hand. `complete` is
    False if the call is in progress, if the process died during the call, or if the stream ended early. Then `ended_by`
    is the reason, if known. `duration_seconds` includes all `attempts` and the pauses between them.
    `time_to_first_token_seconds` is measured in the newest attempt. If a tool started the sub-agent that made this
    call, `parent_execution_id` is the `execution_id` of the tool's result. `replayed_from` is the recorded call whose
    answer this call got, or None if the call was sent to the provider. `run_inferred` is True if the recorder inferred
    that the call belongs to the run, because no recorder was active where the call was made. Interactions share
    repeated values, such as the messages of a conversation: do not change them.
    """

    timestamp: StatedTime
    provider: Text | None
    model: str | None
    response: NotInDocument[LLMResponse] = NO_RESPONSE
    interaction_id: str
    step_number: Always[Integer | None] = None
    agent: Always[Text | None] = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    parent_execution_id: str | None = None
    api: Always[str | None] = None
    attempts: Always[tuple[Attempt, ...]] = ()
    duration_seconds: Always[Seconds | None] = None
    time_to_first_token_seconds: Always[Seconds | None] = None
    stream: Always[bool] = False
    complete: Always[bool] = True
    ended_by: Always[str | None] = None
    error: Always[ErrorInfo | None] = None
    replayed_from: ReplayedFrom | None = None
    run_inferred: bool = False
    source: NotInDocument[InteractionSource]

    @property
    def is_replayed(self) -> bool:
        """Whether a recording gave the answer, so that nothing was sent to the provider.

        Metrics leave out such a call.
        """
        return self.replayed_from is not None

    def __eq__(self, other: object) -> bool:
        return type(other) is LLMInteraction and equal_but(self, other, "source")

    __hash__ = None  # type: ignore[assignment]  # its parts are dicts

    def __repr__(self) -> str:
        members = {"interaction_id": self.interaction_id, "provider": self.provider, "model": self.model}
        members |= without_none(agent=self.agent, error=self.error and self.error.type, content=self.response.content)
        counts = []
        if self.response.tool_calls:
            counts.append((len(self.response.tool_calls), "tool call"))
        return call_repr("LLMInteraction", members, counts)

    def _repr_html_(self) -> str:
        """Show the interaction in a notebook."""
        calls = [(call.name, call.arguments) for call in self.response.tool_calls]
        return table(
            f"LLMInteraction {self.interaction_id}",
            {
                "provider": self.provider,
                "model": self.model,
                "agent": self.agent,
                "messages": len(self.input_messages),
                "reasoning": self.response.reasoning,
                "content": self.response.content,
                "finish_reason": self.response.finish_reason,
                "error": self.error and self.error.to_document(),
                "attempts": len(self.attempts) or None,
                "usage": {name: count for name, count in self.response.usage.to_document().items() if name != "extra"},
                "duration_seconds": self.duration_seconds,
            },
            details=[folded_rows(f"{len(calls)} tool calls", calls)],
        )

    @property
    def answered(self) -> bool:
        """Whether there is a response.

        It is False for a call that failed, and for a call that has not received anything yet.
        """
        return self.response.given != {}

    @property
    def started_at(self) -> datetime | None:
        """`timestamp` as a datetime."""
        return parse_time(self.timestamp)

    @property
    def input_messages(self) -> Sequence[Message]:
        """All messages that the model saw, in order.

        The sequence is immutable, and equals a list of the same messages.
        """
        return SharedSequence.of(self.source.request().messages)

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that were offered to the model. The sequence is immutable, and equals a list of the same tools."""
        return SharedSequence.of(self.source.request().tools)

    @property
    def parameters(self) -> dict[str, Payload]:
        """Every member of the request except messages and tools.

        Other interactions share this dict: do not change it.
        """
        return self.source.request().parameters

    @property
    def raw_request(self) -> Payload:
        """The JSON that was sent, or None without a journal.

        Other interactions may share parts of this value: do not change it.
        """
        return self.source.raw_request()

    @property
    def raw_response(self) -> Payload:
        """The JSON of the response, or None without a journal. A stream is assembled into one response."""
        return self.source.raw_response()

    @property
    def raw_stream(self) -> str | None:
        """The text of the stream, or None if there was no stream or if there is no journal."""
        return self.source.raw_stream()

    @property
    def raw_chunks(self) -> tuple[tuple[float, bytes], ...] | None:
        """The chunks of the stream, each as (seconds from the request until the caller got it, its bytes).

        Joined, the chunks are `raw_stream`. A chunk that ended inside a secret ends after the secret's mask. The value
        is None if there was no stream, if there is no journal, or if the journal has no chunks.
        """
        return self.source.raw_chunks()

    def to_document(
        self,
        messages: dict[str, Payload] | None = None,
        reading: RequestReading | None = None,
        response: Payload = None,
    ) -> dict[str, Payload]:
        """Render for the document.

        If `messages` is given, its members replace `input_messages`, and the messages are not read. `reading` is the
        request, if the caller has read it. `response` is the rendered response, if the caller has rendered it.
        """
        if reading is None and messages is None:
            reading = self.source.request()
        elif reading is None:
            reading = self.source.request_without_messages()
        if messages is None:
            messages = {}
            if self.source.has_request():
                messages["input_messages"] = [message.to_document() for message in reading.messages]
        if response is None:
            response = self.response.to_document()
        answer = {"response": response, "tools_available": [tool.name for tool in reading.tools] or None}
        sent = {"request": reading.to_document()}
        return renderer_of(LLMInteraction, inserts_after=("model", "api"))(self, messages | answer, sent)
