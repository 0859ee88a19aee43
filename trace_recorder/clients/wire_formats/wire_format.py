"""A wire format as the clients use it: pure functions from shared messages to a request, and from a stream to deltas.

The readers in `dialects/` convert a response to an LLMResponse. A wire format has only the functions that readers do
not need. Each module of a dialect in this folder makes one `WireFormat`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trace_recorder.values.messages import LLMResponse, Message, Payload, Tool


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


JsonObject = dict[str, Payload]


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The functions of one wire dialect.

    `build_request` gives the arguments of the SDK's method. `assistant` encodes an assistant message for a request.
    `turn_of` returns the assistant's turn in a response body. `body_of` returns the smallest response body that has a
    turn. `deltas` reads an event of a stream, given how many tool calls have begun. `frame` is the text of an event in
    a stream. `reasoning_fields` names the members of a message's `extra` with reasoning that is sent back.
    """

    api: str
    build_request: Callable[[list[Message], list[Tool], JsonObject], JsonObject]
    assistant: Callable[[Message], Payload]
    turn_of: Callable[[JsonObject], Payload]
    body_of: Callable[[Payload], JsonObject]
    deltas: Callable[[JsonObject, int], Iterable[Delta]]
    frame: str = "data: %s\n\n"
    reasoning_fields: tuple[str, ...] = ()
