"""A wire format as the clients use it: pure functions from shared messages to a request, and from a stream to deltas.

The readers in `dialects/` convert a response to an LLMResponse. A wire format has only the functions that readers do
not need. Each module of a dialect in this folder makes one `WireFormat`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trace_recorder.clients.wire_formats.stream_events import Delta
from trace_recorder.values.messages import Message, Payload, Tool

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
