"""Declares the JSON objects of the document, `trajectory_*.json`, that differ from the classes in `values/`.

A captured call has the same form for all providers. In a call that the agent recorded by hand, the values are as the
agent gave them, and few of their members are required.
"""

from __future__ import annotations

from trace_recorder.facts import Json, Pair
from trace_recorder.reading.schemas.shapes import ABSENT, Nothing, Shape
from trace_recorder.values.document_members import Count
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall
from trace_recorder.values.trajectory import AgentStep, History, Trajectory


class GivenResponse(Shape):
    """A response as the agent gave it. The object is empty if the call failed."""

    tool_calls: list[ToolCall] | None = ABSENT
    usage: Json = ABSENT


class KeptMessages(Shape):
    """The messages that a delta repeats from the complete list of `since`, an earlier interaction or step.

    `kept` is how many messages at the start are repeated, or the inclusive ranges of the repeated messages' positions.
    `places` are the positions in the complete list of the first of the delta's own messages. The others are at the end.
    """

    since: str | None
    kept: Count | list[Pair]
    places: list[Count] = ABSENT


class Delta(KeptMessages):
    """A list of messages as a difference to the complete list of an earlier interaction.

    The list has the messages that `kept` selects from the earlier interaction `since`, followed by `messages`. `kept`
    is how many messages at the start are repeated, or the inclusive ranges of the repeated messages' positions. If
    messages in the middle were replaced, `places` has the positions of the first of `messages` in the complete list.
    """

    messages: list[Message]


class GivenDelta(KeptMessages):
    """A list of messages as a difference to an earlier list.

    The messages were recorded by hand, and are as the agent gave them.
    """

    messages: list[Json]


class StepDelta(GivenDelta):
    """The messages of a step as a difference to the complete list of an earlier step.

    `since` is the `id` of the earlier step's delta.
    """

    id: str


class Request(Shape):
    """The request without its messages.

    `tools` are the tools' declarations, and `instructions` is how many messages at the start are instructions.
    """

    parameters: Json = ABSENT
    tools: list[Payload] = ABSENT
    instructions: int = ABSENT


class Interaction(Shape):
    """One request to a model with its response.

    It has all messages that the model saw, or the difference to an earlier interaction's messages.
    """

    value_class = LLMInteraction
    exactly_one_of = ("input_messages", "input_messages_delta")
    tools_available: list[str] | None
    request: Request


class CapturedInteraction(Interaction):
    """A captured interaction.

    `api` is the wire dialect. The interaction has all messages that the model saw, or a delta.
    """

    api: str
    input_messages: list[Message] = ABSENT
    input_messages_delta: Delta = ABSENT
    response: LLMResponse | Nothing


class GivenInteraction(Interaction):
    """An interaction that the agent recorded by hand.

    Messages and response are as the agent gave them. The interaction has all messages, or a delta.
    """

    api: None
    input_messages: list[Json] = ABSENT
    input_messages_delta: GivenDelta = ABSENT
    response: GivenResponse


class Step(Shape):
    """One decision of the agent. If the agent recorded no steps, a step is `derived` from an interaction.

    The step has all messages that the agent recorded for it, or a delta.
    """

    value_class = AgentStep
    exactly_one_of = ("llm_messages", "llm_messages_delta")
    llm_messages: list[Json] | None = ABSENT
    llm_messages_delta: StepDelta = ABSENT
    llm_response: GivenResponse | None
    interaction_id: str = ABSENT


class Document(Shape):
    """The document of one run of an agent, `trajectory_*.json`."""

    value_class = Trajectory
    llm_interactions: list[CapturedInteraction | GivenInteraction]
    agent_steps: list[Step]
    schema_version: int
    history: History
