"""The values of a trajectory: what one run of an agent did.

Plain, immutable data: no file is opened, no SDK is known. A `Trajectory` is made by the fold (`fold.py`) from a
journal, or from a document alone (`document.py`); each value renders itself for the document with `to_document`,
in the order of the format that the document follows. Timestamps are ISO 8601 strings with an offset, durations
are seconds. Unknown is None.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, Protocol

from trace_recorder.values.messages import (
    NO_RESPONSE,
    LLMResponse,
    Message,
    Payload,
    RequestReading,
    Tool,
    ToolCall,
    ToolResult,
    without_none,
)

SCHEMA_VERSION = 1
"""The version of the document's additions; a reader that knows only the format it follows may pass over it."""

Status = Literal["running", "completed", "failed", "interrupted", "unknown"]
History = Literal["inline", "delta"]

MAX_DELTA_CANDIDATES = 8
"""How many earlier interactions a delta may be written against; sub-agents that take turns need more than one."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error: its class or the provider's name for it, its message, and the HTTP status where there was one."""

    type: str
    message: str
    status: int | None = None

    def to_document(self) -> dict[str, Payload]:
        """Render for the document."""
        return {"type": self.type, "message": self.message} | without_none(status=self.status)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP exchange of an interaction. `inferred` is whether that it belongs here was inferred, not stated."""

    number: int
    timestamp: str
    status: int | None = None
    error: ErrorInfo | None = None
    duration_seconds: float | None = None
    headers: dict[str, str] = field(default_factory=dict)
    inferred: bool = False

    def to_document(self) -> dict[str, Payload]:
        """Render for the document."""
        return {"number": self.number, "timestamp": self.timestamp} | without_none(
            status=self.status,
            error=self.error and self.error.to_document(),
            duration_seconds=self.duration_seconds,
            headers=self.headers or None,
            inferred=self.inferred or None,
        )


class InteractionSource(Protocol):
    """Where an interaction's large parts come from when they are asked for. All of it is in memory already."""

    def request(self) -> RequestReading:
        """The request as its dialect's reader understands it."""

    def request_without_messages(self) -> RequestReading:
        """The request without its messages, where that is known without reading all of them."""

    @property
    def new_tool_results(self) -> list[ToolResult]:
        """What the request brings back from tools since the model last spoke."""

    def has_request(self) -> bool:
        """Whether the request is known; it is not where a record that it needs is damaged."""

    def raw_request(self) -> Payload:
        """The JSON that was sent; None where it is not known."""

    def raw_response(self) -> Payload:
        """The JSON that came; of a stream, assembled; None where it is not known."""

    def raw_stream(self) -> str | None:
        """The text of the stream that came; None where there was none, or it is not known."""

    def raw_chunks(self) -> tuple[tuple[float, bytes], ...] | None:
        """The chunks of that stream, each with the seconds since the request; None where they are not known."""


class WithoutRawData:
    """The half of a source that has no journal: nothing is known of what went over the wire."""

    __slots__ = ()

    def raw_request(self) -> Payload:
        """Nothing."""
        return None

    def raw_response(self) -> Payload:
        """Nothing."""
        return None

    def raw_stream(self) -> str | None:
        """Nothing."""
        return None

    def raw_chunks(self) -> None:
        """Nothing."""
        return


@dataclass(frozen=True, slots=True)
class LLMInteraction:
    """One request to a model with its response.

    `api` is the wire dialect ("openai-chat", …), None for one that was recorded by hand. `complete` is False while
    it is in flight, when the process died, and for a stream that ended early; `ended_by` then says why, if known.
    `parent_execution_id` is the execution of a tool in which its sub-agent was started.
    What is not stored as a field is expanded on each access: keep it where it is used more than once.
    """

    interaction_id: str
    timestamp: str
    provider: str | None
    model: str | None
    source: InteractionSource = field(repr=False, compare=False)
    api: str | None = None
    step_number: int | None = None
    agent: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    response: LLMResponse = NO_RESPONSE
    error: ErrorInfo | None = None
    attempts: tuple[Attempt, ...] = ()
    duration_seconds: float | None = None
    time_to_first_token_seconds: float | None = None
    stream: bool = False
    complete: bool = True
    ended_by: str | None = None
    parent_execution_id: str | None = None

    @property
    def answered(self) -> bool:
        """Whether there is a response: not of a call that failed, or of which nothing has come yet."""
        return self.response.given != {}

    @property
    def input_messages(self) -> list[Message]:
        """Everything that the model saw, in order."""
        return self.source.request().messages

    @property
    def tools(self) -> list[Tool]:
        """The tools that were offered to the model."""
        return self.source.request().tools

    @property
    def parameters(self) -> dict[str, Payload]:
        """Every member of the request that is neither messages nor tools."""
        return self.source.request().parameters

    @property
    def raw_request(self) -> Payload:
        """The JSON that was sent; None without a journal. Its parts may be shared with others: do not change it."""
        return self.source.raw_request()

    @property
    def raw_response(self) -> Payload:
        """The JSON that came; of a stream, assembled; None without a journal."""
        return self.source.raw_response()

    @property
    def raw_stream(self) -> str | None:
        """The text of the stream that came; None where there was none, and without a journal."""
        return self.source.raw_stream()

    @property
    def raw_chunks(self) -> tuple[tuple[float, bytes], ...] | None:
        """The stream as it came: each chunk's bytes, and the seconds since the request at which the caller had it.

        Together they are `raw_stream`; where that was masked they are cut where they were, or behind the mask. None
        where there was no stream, without a journal, and of journals that do not say.
        """
        return self.source.raw_chunks()

    def to_document(self, messages: dict[str, Payload] | None = None) -> dict[str, Payload]:
        """Render for the document; `messages` stands in for `input_messages`, which then need not be read."""
        reading = self.source.request() if messages is None else self.source.request_without_messages()
        if not self.source.has_request():
            messages = {}
        elif messages is None:
            messages = {"input_messages": [message.to_document() for message in reading.messages]}
        return {
            "timestamp": self.timestamp,
            "provider": self.provider,
            "model": self.model,
            **messages,
            "response": self.response.to_document(),
            "tools_available": [tool.name for tool in reading.tools] or None,
            "interaction_id": self.interaction_id,
            "step_number": self.step_number,
            "agent": self.agent,
            **without_none(
                agent_id=self.agent_id,
                parent_agent_id=self.parent_agent_id,
                parent_execution_id=self.parent_execution_id,
            ),
            "api": self.api,
            "request": without_none(
                parameters=reading.parameters or None,
                tools=[tool.raw for tool in reading.tools] or None,
                instructions=reading.instructions or None,
            ),
            "attempts": [attempt.to_document() for attempt in self.attempts],
            "duration_seconds": self.duration_seconds,
            "time_to_first_token_seconds": self.time_to_first_token_seconds,
            "stream": self.stream,
            "complete": self.complete,
            "ended_by": self.ended_by,
            "error": self.error and self.error.to_document(),
        }


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One decision of the agent, as it recorded it, or `derived` from an interaction where it records none.

    `interaction` is the one that it derives from; of a step with a block, the agent's last one inside, and
    `interaction_ids` are all of them. `parent_agent_id` is the agent that its sub-agent was marked in.
    """

    step_number: int
    timestamp: str
    state: str
    messages: tuple[Message, ...] | None = None
    llm_response: LLMResponse | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    reflection: str | None = None
    error: str | None = None
    agent: str | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    duration_seconds: float | None = None
    interaction_ids: tuple[str, ...] = ()
    interaction: LLMInteraction | None = field(default=None, repr=False, compare=False)
    derived: bool = False
    extra: dict[str, Payload] = field(default_factory=dict)

    @property
    def llm_messages(self) -> list[Message] | None:
        """The messages of this step: those that the agent gave, or those of the interaction that it derives from."""
        if self.messages is not None:
            return list(self.messages)
        return self.interaction.input_messages if self.interaction else None

    def to_document(self, llm_response: Payload = None) -> dict[str, Payload]:
        """Render for the document; `llm_response` stands in for this step's.

        A derived step does not repeat the messages: its `interaction_id` leads to them.
        """
        return {
            "step_number": self.step_number,
            "timestamp": self.timestamp,
            "state": self.state,
            "llm_messages": None if self.messages is None else [message.to_document() for message in self.messages],
            "llm_response": llm_response if llm_response is not None else self._response(),
            "tool_calls": [call.to_document() for call in self.tool_calls] or None,
            "tool_results": [result.to_document() for result in self.tool_results] or None,
            "reflection": self.reflection,
            "error": self.error,
            **self.extra,
            "agent": self.agent,
            **without_none(agent_id=self.agent_id, parent_agent_id=self.parent_agent_id),
            "derived": self.derived,
            **without_none(
                interaction_id=self.interaction and self.interaction.interaction_id,
                interaction_ids=[*self.interaction_ids] or None,
                duration_seconds=self.duration_seconds,
            ),
        }

    def _response(self) -> Payload:
        return None if self.llm_response is None else self.llm_response.to_document()


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward of the whole run, or of one step."""

    name: str
    value: float
    weight: float = 1.0
    step_number: int | None = None
    explanation: str | None = None
    timestamp: str | None = None

    def to_document(self) -> dict[str, Payload]:
        """Render for the document."""
        return {"name": self.name, "value": self.value, "weight": self.weight} | without_none(
            step_number=self.step_number, explanation=self.explanation, timestamp=self.timestamp
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be recorded, or can no longer be read: what, and why."""

    timestamp: str | None
    what: str
    why: str

    def to_document(self) -> dict[str, Payload]:
        """Render for the document."""
        return {"timestamp": self.timestamp, "what": self.what, "why": self.why}


@dataclass(slots=True)
class MessageDeltas:
    """Writes each interaction's messages against the earlier one with which it shares the longest beginning.

    What an interaction was written against first stays: two that each stand on the other could not be read.
    """

    _seen: deque[tuple[str, list[str]]] = field(default_factory=lambda: deque(maxlen=MAX_DELTA_CANDIDATES))
    _chosen: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def of(self, one: LLMInteraction) -> dict[str, Payload] | None:
        """Return the members that stand in for `input_messages`; None for one recorded by hand, which stays whole."""
        if one.api is None or not one.source.has_request():
            return None
        messages = [message.to_document() for message in one.input_messages]
        if one.interaction_id not in self._chosen:
            self._choose(one.interaction_id, [json.dumps(message, sort_keys=True) for message in messages])
        since, kept = self._chosen[one.interaction_id]
        return {"input_messages_delta": {"since": since, "kept": kept, "messages": messages[kept:]}}

    def _choose(self, identity: str, texts: list[str]) -> None:
        candidates = [(_common_length(texts, earlier), earlier_identity) for earlier_identity, earlier in self._seen]
        kept, since = max(candidates, key=itemgetter(0), default=(0, ""))
        self._seen.append((identity, texts))
        self._chosen[identity] = (since, kept) if kept else (None, 0)


def _common_length(texts: list[str], earlier: list[str]) -> int:
    for position, (text, before) in enumerate(zip(texts, earlier, strict=False)):
        if text != before:
            return position
    return min(len(texts), len(earlier))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One run of one agent. `execution_time` is in seconds; `history` is how the document was written, if it was."""

    trajectory_id: str | None = None
    task: str | None = None
    status: Status = "unknown"
    success: bool | None = None
    final_result: Payload = None
    error: ErrorInfo | None = None
    provider: str | None = None
    model: str | None = None
    max_steps: int | None = None
    start_time: str | None = None
    end_time: str | None = None
    execution_time: float | None = None
    metadata: dict[str, Payload] = field(default_factory=dict)
    annotations: dict[str, Payload] = field(default_factory=dict)
    rewards: tuple[Reward, ...] = ()
    metrics: dict[str, Payload] = field(default_factory=dict)
    llm_interactions: Sequence[LLMInteraction] = ()
    agent_steps: Sequence[AgentStep] = ()
    gaps: tuple[Gap, ...] = ()

    def to_document(self, history: History = "inline") -> dict[str, Payload]:
        """Render the whole document, with complete lists of messages or with deltas."""
        deltas = MessageDeltas()
        return {
            **self.head(),
            "llm_interactions": [
                one.to_document(deltas.of(one) if history == "delta" else None) for one in self.llm_interactions
            ],
            "agent_steps": [step.to_document() for step in self.agent_steps],
            **self.tail(history),
        }

    def head(self) -> dict[str, Payload]:
        """The document's members before `llm_interactions`."""
        return {
            "task": self.task,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "provider": self.provider,
            "model": self.model,
            "max_steps": self.max_steps,
        }

    def tail(self, history: History) -> dict[str, Payload]:
        """The document's members after `agent_steps`."""
        return {
            "success": self.success,
            "final_result": self.final_result,
            "execution_time": self.execution_time,
            "schema_version": SCHEMA_VERSION,
            "trajectory_id": self.trajectory_id,
            "status": self.status,
            "error": self.error and self.error.to_document(),
            "metadata": self.metadata,
            "annotations": self.annotations,
            "metrics": self.metrics,
            "rewards": [reward.to_document() for reward in self.rewards],
            "gaps": [gap.to_document() for gap in self.gaps],
            "history": history,
        }
