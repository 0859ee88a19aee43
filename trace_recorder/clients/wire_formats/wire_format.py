"""What a dialect is to a client: pure functions from the shared form to a request, and from a stream to its pieces.

The way back, from an answer to an LLMResponse, is for the readers (`dialects/`): a dialect adds only what a reader
has no need of. Each of `dialects/` makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trace_recorder.clients.wire_formats.stream_events import Delta
from trace_recorder.values.messages import Message, Payload, Tool

JsonObject = dict[str, Payload]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The functions of one wire dialect.

    `build_request` gives the arguments of the SDK's method. `assistant` gives an assistant's turn as a request has it,
    `turn_of` the one of an answer, and `body_of` the smallest answer with a turn. `deltas` reads an event of a stream,
    given how many tool calls have begun. `frame` is how an event stands in a stream's text. `hands_back` names where
    in a message's `extra` reasoning stands that goes back.
    """

    api: str
    build_request: Callable[[list[Message], list[Tool], JsonObject], JsonObject]
    assistant: Callable[[Message], Payload]
    turn_of: Callable[[JsonObject], Payload]
    body_of: Callable[[Payload], JsonObject]
    deltas: Callable[[JsonObject, int], Iterable[Delta]]
    frame: str = "data: %s\n\n"
    hands_back: tuple[str, ...] = ()
