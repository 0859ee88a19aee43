"""A trajectory: what one run of an agent did.

All values are immutable. A `Trajectory` is made from a journal (`reading/fold.py`), or from a document alone
(`reading/document.py`). Each value renders itself for the document with `to_document`. Timestamps are ISO 8601 strings
with an offset from UTC, and durations are in seconds. An unknown value is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from trace_recorder.clocks import parse_time
from trace_recorder.locks import Lock
from trace_recorder.values import structs
from trace_recorder.values.document_members import (
    Always,
    Count,
    Described,
    Integer,
    NotInDocument,
    NullIfEmpty,
    Number,
    Seconds,
    StatedTime,
    Text,
    Time,
    render,
    renderer_of,
)
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction, Websocket
from trace_recorder.values.message_table import SharedSequence
from trace_recorder.values.messages import (
    LLMResponse,
    MCPServer,
    Message,
    Payload,
    ToolCall,
    ToolResult,
    without_none,
)
from trace_recorder.values.short_forms import MAX_ROWS, call_repr, folded_rows, table
from trace_recorder.values.structs import Struct, equal_but

SCHEMA_VERSION = 1
"""The version of the members that we added to the document's format.

A reader that needs only the original members may ignore this version.
"""

Made = TypeVar("Made")

Status = Literal["running", "completed", "failed", "interrupted", "unknown"]
History = Literal["inline", "delta"]


class AgentStep(Struct, frozen=True, gc=False):
    """One decision of the agent. `derived` is True if the agent did not record the step itself.

    `interaction` is the interaction from which the step is derived. If the step is a `with recorder.step()` block,
    `interaction` is the agent's last interaction in the block. Then `interaction_ids` has the ids of all interactions
    in the block. `parent_agent_id` is the agent that started this sub-agent.
    """

    step_number: Integer
    timestamp: StatedTime
    state: Text
    llm_response: NotInDocument[LLMResponse | None] = None
    tool_calls: NullIfEmpty[tuple[ToolCall, ...]] = ()
    tool_results: NullIfEmpty[tuple[ToolResult, ...]] = ()
    reflection: Always[str | None] = None
    error: Always[str | None] = None
    agent: Always[Text | None] = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    derived: Always[bool] = False
    interaction_ids: tuple[str, ...] = ()
    duration_seconds: Seconds | None = None
    messages: NotInDocument[Sequence[Message] | None] = None
    interaction: NotInDocument[LLMInteraction | None] = None
    extra: NotInDocument[dict[str, Payload]] = structs.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return type(other) is AgentStep and equal_but(self, other, "interaction")

    __hash__ = None  # type: ignore[assignment]  # its parts are dicts

    def __repr__(self) -> str:
        return call_repr(
            "AgentStep",
            {"step_number": self.step_number, "state": self.state} | without_none(agent=self.agent, error=self.error),
            [(len(self.tool_calls), "tool call"), (len(self.tool_results), "tool result")],
        )

    def _repr_html_(self) -> str:
        """Show the step in a notebook."""
        calls = [(call.name, call.arguments) for call in self.tool_calls]
        results = []
        for result in self.tool_results:
            shown = result.result if result.error is None else result.error
            results.append((result.name, result.success, shown))
        return table(
            f"AgentStep {self.step_number}",
            {
                "state": self.state,
                "agent": self.agent,
                "content": self.llm_response and self.llm_response.content,
                "reflection": self.reflection,
                "error": self.error,
                "duration_seconds": self.duration_seconds,
            },
            details=[
                folded_rows(f"{len(calls)} tool calls", calls),
                folded_rows(f"{len(results)} tool results", results),
            ],
        )

    @property
    def llm_messages(self) -> Sequence[Message] | None:
        """The messages that the agent recorded for this step, or else the messages of the step's interaction."""
        if self.messages is not None:
            return SharedSequence.of(self.messages)
        if self.interaction:
            return self.interaction.input_messages
        return None

    @property
    def started_at(self) -> datetime | None:
        """`timestamp` as a datetime."""
        return parse_time(self.timestamp)

    def to_document(
        self, llm_response: Payload = None, messages: dict[str, Payload] | None = None
    ) -> dict[str, Payload]:
        """Render for the document.

        `llm_response` is written in place of this step's response. `messages` has the members to write in place of
        `llm_messages`. A derived step does not repeat the messages, because its `interaction_id` refers to them.
        """
        if messages is None:
            messages = {"llm_messages": None}
            if self.messages is not None:
                messages["llm_messages"] = [message.to_document() for message in self.messages]
        if llm_response is None and self.llm_response is not None:
            llm_response = self.llm_response.to_document()
        origin = {}
        if self.interaction is not None:
            origin["interaction_id"] = self.interaction.interaction_id
        messages_and_response = {**messages, "llm_response": llm_response}
        renderer = renderer_of(AgentStep, inserts_after=("state", "error", "derived"))
        return renderer(self, messages_and_response, self.extra, origin)


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward of the whole run, or of one step if `step_number` is given."""

    name: Text
    value: Number
    weight: Always[Number] = 1.0
    step_number: Integer | None = None
    explanation: Text | None = None
    timestamp: Time | None = None

    to_document = render


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the run that could not be recorded, or that can no longer be read.

    `what` names the part, and `why` gives the reason.
    """

    timestamp: Time | None
    what: Text
    why: Text

    to_document = render


@dataclass(frozen=True, slots=True)
class Removal:
    """Texts that were removed from the run after its end.

    `rules` has the kind of each rule that removed them, and `places` is how many places were changed.
    """

    timestamp: Time | None
    rules: Always[tuple[Text, ...]] = ()
    places: Always[Count] = 0

    to_document = render


class _ReadOnDemand:
    """The base class of a dataclass with fields that are read when they are first used.

    `_unread` has a function for each field that was not read yet, by the name of the field. The function returns a dict
    with the value of this field, and perhaps with the values of other fields.
    """

    __slots__ = ("_lock", "_made", "_unread")

    if TYPE_CHECKING:
        _made: dict[Callable[[Trajectory], Any], Any]
    else:  # if it saw `__getattr__`, a type checker would accept every attribute

        def __getattr__(self, name: str) -> object:
            if name not in self.__dataclass_fields__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            with self._lock:  # two threads may ask at once
                read = self._unread.get(name)
                if read is not None:
                    for field_name, value in read().items():
                        object.__setattr__(self, field_name, value)
                        self._unread.pop(field_name, None)
            return object.__getattribute__(self, name)


@dataclass(frozen=True, slots=True)
class Trajectory(_ReadOnDemand):
    """One run of one agent: its facts, its LLM interactions, and its steps. `execution_time` is in seconds.

    `parent` is the trajectory id of the run that this run continues as a fork, or in which its process was started. It
    is None for all other runs. `session` is the caller's name for all runs that belong together, such as the turns of
    one chat.
    """

    task: Always[Text | None] = None
    start_time: Always[Time | None] = None
    end_time: Always[Time | None] = None
    provider: Always[Text | None] = None
    model: Always[Text | None] = None
    max_steps: Always[Integer | None] = None
    llm_interactions: NotInDocument[Sequence[LLMInteraction]] = ()
    agent_steps: NotInDocument[Sequence[AgentStep]] = ()
    success: Always[Described[bool] | None] = None
    final_result: Always[Payload] = None
    execution_time: Always[Seconds | None] = None
    trajectory_id: Always[str | None] = None
    parent: str | None = None
    session: Text | None = None
    status: Always[Status] = "unknown"
    error: Always[ErrorInfo | None] = None
    metadata: Always[dict[str, Payload]] = field(default_factory=dict)
    annotations: Always[dict[str, Payload]] = field(default_factory=dict)
    metrics: Always[dict[str, float]] = field(default_factory=dict)
    rewards: Always[tuple[Reward, ...]] = ()
    gaps: Always[tuple[Gap, ...]] = ()
    removals: tuple[Removal, ...] = ()
    mcp_servers: tuple[MCPServer, ...] = ()
    """The connections to MCP servers whose messages are on file."""
    websockets: tuple[Websocket, ...] = ()
    """The websockets to models that are on file."""
    journal_records: Count | None = field(default=None, compare=False)
    """How many records of its journal this trajectory covers, or None if the document does not state that."""
    path: NotInDocument[Path | None] = field(default=None, compare=False)
    """The file from which the run was loaded, or None if it was not loaded from a file."""

    @classmethod
    def read_on_demand(
        cls, known: Mapping[str, object], read: Mapping[str, Callable[[], Mapping[str, object]]]
    ) -> Trajectory:
        """Return a trajectory with the fields `known`.

        `read` has a function for each other field, by the name of the field. The function is called when the field is
        first used. It returns a dict with the value of this field, and perhaps with the values of other fields.
        """
        trajectory = object.__new__(cls)
        for name, value in [*known.items(), ("_unread", {**read}), ("_lock", Lock())]:
            object.__setattr__(trajectory, name, value)
        return trajectory

    def __repr__(self) -> str:
        counts = [(len(self.llm_interactions), "LLM interaction"), (len(self.agent_steps), "step")]
        known = {"task": self.task, "status": self.status} | without_none(success=self.success)
        return call_repr("Trajectory", known, counts)

    @property
    def messages(self) -> Sequence[Message]:
        """The last conversation: the messages of the last call that the model answered, followed by the answer."""
        last = next((call for call in reversed(self.llm_interactions) if call.answered), None)
        if last is None:
            return SharedSequence()
        response = last.response
        answer = Message("assistant", response.content, response.tool_calls, reasoning=response.reasoning)
        return SharedSequence([*last.input_messages, answer])

    @property
    def steps(self) -> Sequence[AgentStep]:
        """A shorter name of `agent_steps`."""
        return self.agent_steps

    @property
    def started_at(self) -> datetime | None:
        """`start_time` as a datetime."""
        return parse_time(self.start_time)

    @property
    def ended_at(self) -> datetime | None:
        """`end_time` as a datetime."""
        return parse_time(self.end_time)

    def to_dict(self, history: History = "inline") -> dict[str, Payload]:
        """Return the whole document as a dict. This is another name of `to_document`."""
        return self.to_document(history)

    def _repr_html_(self) -> str:
        """Show the run's facts and its last steps in a notebook. `trace_recorder.display` shows the whole run."""
        steps = [
            (step.step_number, step.agent, step.state, ", ".join(call.name for call in step.tool_calls), step.error)
            for step in self.agent_steps[-MAX_ROWS - 1 :]
        ]
        return table(
            "Trajectory",
            {
                "task": self.task,
                "status": self.status,
                "success": self.success,
                "final_result": self.final_result,
                "error": self.error and self.error.to_document(),
                "provider": self.provider,
                "model": self.model,
                "start_time": self.start_time,
                "execution_time": self.execution_time,
                "metrics": self.metrics,
                "rewards": {reward.name: reward.value for reward in self.rewards},
                "parent": self.parent,
                "session": self.session,
                "gaps": len(self.gaps) or None,
            },
            details=[folded_rows(f"{len(self.agent_steps)} steps", steps)],
        )

    def to_document(self, history: History = "inline") -> dict[str, Payload]:
        """Return the whole document.

        If `history` is "inline", each list of messages is complete. If it is "delta", a list has only the difference to
        an earlier list.
        """
        from trace_recorder.values.history_deltas import MessageDeltas  # noqa: PLC0415 - a recorder needs no deltas

        deltas, step_deltas = MessageDeltas(), MessageDeltas()

        def messages_of(step: AgentStep, number: int) -> dict[str, Payload] | None:
            if history == "inline" or step.messages is None:
                return None
            name = f"messages_{number}"
            return {"llm_messages_delta": {"id": name, **step_deltas.delta(name, step.messages)}}

        if history == "inline":
            interactions = [call.to_document() for call in self.llm_interactions]
        else:
            interactions = [call.to_document(deltas.delta_of(call)) for call in self.llm_interactions]
        steps = [step.to_document(messages=messages_of(step, number)) for number, step in enumerate(self.agent_steps)]
        return {**self.head(), "llm_interactions": interactions, "agent_steps": steps, **self.tail(history)}

    def head(self) -> dict[str, Payload]:
        """Return the document's members before `llm_interactions`."""
        return renderer_of(Trajectory, 0, _HEAD_MEMBERS)(self)

    def tail(self, history: History) -> dict[str, Payload]:
        """Return the document's members after `agent_steps`."""
        renderer = renderer_of(Trajectory, _HEAD_MEMBERS, inserts_after=("execution_time", "gaps"))
        return renderer(self, {"schema_version": SCHEMA_VERSION}, {"history": history})


def made_once(trajectory: Trajectory, make: Callable[[Trajectory], Made]) -> Made:
    """Return what `make` makes of a run. It is made at the first request, and kept as long as the run.

    Copies of the run do not have it.
    """
    values = _values_made_once(trajectory)
    if make not in values:
        values[make] = make(trajectory)
    value: Made = values[make]
    return value


def set_made_once(trajectory: Trajectory, make: Callable[[Trajectory], Made], value: Made) -> None:
    """Set the value that `made_once` returns for a run."""
    _values_made_once(trajectory)[make] = value


def _values_made_once(trajectory: Trajectory) -> dict[Callable[[Trajectory], Any], Any]:
    if not hasattr(trajectory, "_made"):
        object.__setattr__(trajectory, "_made", {})
    return trajectory._made  # noqa: SLF001 - it is this file's own attribute


_HEAD_MEMBERS = [*Trajectory.__dataclass_fields__].index("llm_interactions")
