"""The objects of the document, `trajectory_*.json`, that differ from the classes in `values/`.

A captured call must have the form that all providers share. The values that an agent recorded by hand stay as the agent
gave them, and few of their members are required.
"""

from __future__ import annotations

from trace_recorder.derive.schemas.shapes import ABSENT, Json, Nothing, Pair, Shape
from trace_recorder.values.document_members import Count
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall
from trace_recorder.values.trajectory import AgentStep, History, Trajectory


class GivenResponse(Shape):
    """A response as the agent gave it. It is empty for a call that failed."""

    tool_calls: list[ToolCall] | None = ABSENT
    usage: Json = ABSENT


class KeptMessages(Shape):
    """The first `kept` messages of another interaction's complete list, or the messages at ranges of positions."""

    since: str | None
    kept: Count | list[Pair]


class Delta(KeptMessages):
    """A list of messages as a difference to another interaction's complete list.

    The list consists of the messages of the other list that `kept` selects, and then of `messages`. `kept` is a count
    from the start, or ranges.
    """

    messages: list[Message]


class GivenDelta(KeptMessages):
    """A delta of messages that were recorded by hand. Each message is as the agent gave it."""

    messages: list[Json]


class StepDelta(GivenDelta):
    """A delta of the messages of a step. `since` is the `id` of an earlier step's delta."""

    id: str


class Request(Shape):
    """The request without its messages: parameters, tools as declared, and how many messages are instructions."""

    parameters: Json = ABSENT
    tools: list[Payload] = ABSENT
    instructions: int = ABSENT


class Interaction(Shape):
    """One request to a model with its response. It has all messages that the model saw, or a delta."""

    value_class = LLMInteraction
    exactly_one_of = ("input_messages", "input_messages_delta")
    tools_available: list[str] | None
    request: Request


class CapturedInteraction(Interaction):
    """A captured interaction. `api` is its wire dialect. It has all messages that the model saw, or a delta."""

    api: str
    input_messages: list[Message] = ABSENT
    input_messages_delta: Delta = ABSENT
    response: LLMResponse | Nothing


class GivenInteraction(Interaction):
    """An interaction that the agent recorded by hand, as the agent gave it. It has all messages, or a delta."""

    api: None
    input_messages: list[Json] = ABSENT
    input_messages_delta: GivenDelta = ABSENT
    response: GivenResponse


class Step(Shape):
    """One decision of the agent, as the agent recorded it, or `derived` from an interaction if no step was recorded.

    It has all messages that the agent gave, or a delta.
    """

    value_class = AgentStep
    exactly_one_of = ("llm_messages", "llm_messages_delta")
    llm_messages: list[Json] | None = ABSENT
    llm_messages_delta: StepDelta = ABSENT
    llm_response: GivenResponse | None
    interaction_id: str = ABSENT


class Document(Shape):
    """One run of an agent, as it is in `trajectory_*.json`."""

    value_class = Trajectory
    llm_interactions: list[CapturedInteraction | GivenInteraction]
    agent_steps: list[Step]
    schema_version: int
    history: History
