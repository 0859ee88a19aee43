"""What a stream gives, event by event: pieces of text, of reasoning, of tool calls, and at the end the response."""

from __future__ import annotations

from dataclasses import dataclass

from trace_recorder.values.messages import LLMResponse


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call: the first has its `name` (and `call_id`, where the provider gives one).

    `index` counts the calls of the answer from 0; `arguments` is a piece of their JSON text.
    """

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: the whole response. `complete` is whether the protocol's own end was seen."""

    response: LLMResponse
    complete: bool


Delta = TextDelta | ReasoningDelta | ToolCallDelta
StreamEvent = Delta | Finished
