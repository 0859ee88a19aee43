"""The models of the document, `trajectory_*.json`, as `document.py` and the values' `to_document` write it.

A captured call must have the form that all providers share. What an agent recorded by hand stays as it gave it, and
little is required of it. Members that are always written are required, even where they are null.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from trace_recorder.derive.schemas.schema_types import (
    ABSENT,
    Count,
    Integer,
    Json,
    Number,
    Pair,
    ReplayedCall,
    Seconds,
    Shape,
    StatedTime,
    Text,
    Time,
    Unrepresentable,
)
from trace_recorder.values.messages import BlockType, Payload
from trace_recorder.values.trajectory import History, Status


class Error(Shape):
    """An error: its class or the provider's name for it, its message, and the HTTP status where there was one."""

    type: str
    message: Text
    status: int = ABSENT


class Attempt(Shape):
    """One HTTP exchange of an interaction, counted from 0."""

    number: Count
    timestamp: StatedTime
    status: int = ABSENT
    error: Error = ABSENT
    duration_seconds: Seconds = ABSENT
    headers: dict[str, str] = ABSENT
    inferred: bool = ABSENT


class ToolCall(Shape):
    """A tool call by a model. `arguments` is the object, or the text if it is no JSON object."""

    call_id: str
    name: str
    arguments: Payload


class ToolResult(Shape):
    """The result of a tool."""

    call_id: str
    success: Payload
    result: Payload
    error: Payload
    sent: Payload = ABSENT
    duration_seconds: Seconds = ABSENT
    execution_id: str = ABSENT
    timestamp: str = ABSENT
    replayed: bool = ABSENT


class Message(Shape):
    """One message of a captured call, in the form that all providers share."""

    role: str
    content: str | list[Payload] | None
    tool_calls: list[ToolCall] = ABSENT
    call_id: str = ABSENT
    name: str = ABSENT
    reasoning: str = ABSENT
    extra: Json = ABSENT


class Usage(Shape):
    """Token counts as the provider states them. What is unknown is absent."""

    input_tokens: int = ABSENT
    output_tokens: int = ABSENT
    cache_creation_input_tokens: int = ABSENT
    cache_read_input_tokens: int = ABSENT
    reasoning_tokens: int = ABSENT
    cost: float = ABSENT
    extra: Json = ABSENT


class Block(Shape):
    """One block of an answer: of a text, its length in code points; of an `other` block, its position in `extra`."""

    type: BlockType
    characters: Count = ABSENT
    call_id: str = ABSENT
    position: Count = ABSENT


class Choice(Shape):
    """One of several answers."""

    index: int
    content: str | None
    reasoning: str = ABSENT
    tool_calls: list[ToolCall] = ABSENT
    finish_reason: str = ABSENT
    blocks: list[Block] = ABSENT
    extra: Json = ABSENT


class GivenResponse(Shape):
    """A response as the agent gave it. It is empty for a call that failed."""

    tool_calls: list[ToolCall] | None = ABSENT
    usage: Json = ABSENT


class Response(Shape):
    """A response that was read from what came over the wire."""

    content: str | None
    model: str | None
    finish_reason: str | None
    usage: Usage = ABSENT
    tool_calls: list[ToolCall] | None
    reasoning: str = ABSENT
    blocks: list[Block] = ABSENT
    id: str = ABSENT
    choices: list[Choice] = ABSENT
    extra: Json = ABSENT


Nothing = Annotated[Json, Field(max_length=0)]


class Delta(Shape):
    """The first `kept` messages of another interaction's complete list, or those at these ranges, then `messages`."""

    since: str | None
    kept: Count | list[Pair]
    messages: list[Message]


class GivenDelta(Shape):
    """The same for messages that were recorded by hand: each as the agent gave it."""

    since: str | None
    kept: Count | list[Pair]
    messages: list[Json]


class StepDelta(GivenDelta):
    """The same for the messages of a step: `since` is the `id` of an earlier step's delta."""

    id: str


class Request(Shape):
    """What else was sent: parameters, tools as they were declared, and how many messages are instructions."""

    parameters: Json = ABSENT
    tools: list[Payload] = ABSENT
    instructions: int = ABSENT


class Interaction(Shape):
    """One request to a model with its response."""

    timestamp: StatedTime
    provider: Text | None
    model: str | None
    tools_available: list[str] | None
    interaction_id: str
    step_number: Integer | None
    agent: Text | None
    agent_id: str = ABSENT
    parent_agent_id: str = ABSENT
    parent_execution_id: str = ABSENT
    request: Request
    attempts: list[Attempt]
    duration_seconds: Seconds | None
    time_to_first_token_seconds: Seconds | None
    stream: bool
    complete: bool
    ended_by: str | None
    error: Error | None
    replayed_from: ReplayedCall = ABSENT


class CapturedInteraction(Interaction):
    """A captured interaction. `api` is its wire dialect. It has all messages that the model saw, or a delta."""

    exactly_one_of = ("input_messages", "input_messages_delta")
    api: str
    input_messages: list[Message] = ABSENT
    input_messages_delta: Delta = ABSENT
    response: Response | Nothing


class GivenInteraction(Interaction):
    """An interaction that the agent recorded by hand, as it gave it. It has all messages, or a delta."""

    exactly_one_of = ("input_messages", "input_messages_delta")
    api: None
    input_messages: list[Json] = ABSENT
    input_messages_delta: GivenDelta = ABSENT
    response: GivenResponse


def _interaction_kind(value: Payload) -> str:
    api = value.get("api") if isinstance(value, dict) else getattr(value, "api", None)
    return "given" if api is None else "captured"


AnyInteraction = Annotated[
    Annotated[CapturedInteraction, Tag("captured")] | Annotated[GivenInteraction, Tag("given")],
    Discriminator(_interaction_kind),
]


class Step(Shape):
    """One decision of the agent: as it recorded it, or `derived` from an interaction if it recorded none.

    It has all messages that the agent gave, or a delta.
    """

    exactly_one_of = ("llm_messages", "llm_messages_delta")
    step_number: Integer
    timestamp: StatedTime
    state: Text
    llm_messages: list[Json] | None = ABSENT
    llm_messages_delta: StepDelta = ABSENT
    llm_response: GivenResponse | None
    tool_calls: list[ToolCall] | None
    tool_results: list[ToolResult] | None
    reflection: str | None
    error: str | None
    agent: Text | None
    agent_id: str = ABSENT
    parent_agent_id: str = ABSENT
    derived: bool
    interaction_id: str = ABSENT
    interaction_ids: list[str] = ABSENT
    duration_seconds: Seconds = ABSENT


class Reward(Shape):
    """A reward of the run, or of one of its steps."""

    name: Text
    value: Number
    weight: Number
    step_number: Integer = ABSENT
    explanation: Text = ABSENT
    timestamp: Time = ABSENT


class Gap(Shape):
    """Something that could not be recorded, or cannot be read any more: what, and why."""

    timestamp: Time | None
    what: Text
    why: Text


class Document(Shape):
    """One run of an agent, as `trajectory_*.json` holds it."""

    task: Text | None
    start_time: Time | None
    end_time: Time | None
    provider: Text | None
    model: Text | None
    max_steps: Integer | None
    llm_interactions: list[AnyInteraction]
    agent_steps: list[Step]
    success: bool | Unrepresentable | None
    final_result: Payload
    execution_time: Seconds | None
    schema_version: int
    trajectory_id: str | None
    status: Status
    error: Error | None
    metadata: Json
    annotations: Json
    metrics: dict[str, float]
    rewards: list[Reward]
    gaps: list[Gap]
    history: History
    journal_records: Count = ABSENT
