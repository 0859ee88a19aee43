"""The events of a stream: pieces of text, of reasoning, of tool calls, and at the end the response."""

from __future__ import annotations

from dataclasses import dataclass

from trace_recorder.values.messages import LLMResponse


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call. The first piece has its `name`, and its `call_id` if the provider sends one.

    `index` counts the calls of the answer from 0; `arguments` is a piece of their JSON text.
    """

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: the whole response. `complete` is True if the protocol's end was received."""

    response: LLMResponse
    complete: bool


Delta = TextDelta | ReasoningDelta | ToolCallDelta
StreamEvent = Delta | Finished
