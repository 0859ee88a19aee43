"""One request with the action that answers it, and what every dialect needs to write that down.

A dialect is a module with the names of the Protocol `Dialect`. It reads and writes; what is said is the policy's.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from examples.demo.policy import Action, Conversation

Payload = Any
"""The JSON of a request or an answer, as the dialect has it."""

PIECE_LENGTH = 12


class RefusedError(Exception):
    """The request is answered with an error; a dialect gives it its form."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request (`path` without its query, and the JSON `body`) and its `action`; `number` makes the ids unique."""

    number: int
    path: str
    body: Payload
    action: Action

    def ident(self, prefix: str, part: int = 0) -> str:
        """An id such as the provider would make up, but one that is readable: prefix, request, part."""
        return f"{prefix}{self.number:06d}{part:02d}"

    @property
    def call_arguments(self) -> list[str]:
        """The arguments of each call, as JSON text."""
        return [json.dumps(call.arguments) for call in self.action.calls]

    @property
    def output_tokens(self) -> int:
        """The tokens of words and calls, without those of thinking."""
        return (
            tokens(self.action.text)
            + sum(tokens(call.name) for call in self.action.calls)
            + sum(tokens(arguments) for arguments in self.call_arguments)
        )

    @property
    def reasoning_tokens(self) -> int:
        """The tokens of thinking."""
        return tokens(self.action.reasoning)


class Dialect(Protocol):
    """What the module of a dialect has."""

    STREAM_TYPE: str

    def owns(self, path: str, headers: Container[str]) -> bool:
        """Whether a request is for this dialect, by its path and its headers' names, in small letters."""

    def read(self, path: str, body: Payload) -> Conversation:
        """The conversation in a request; RefusedError where the provider would refuse it."""

    def streams(self, exchange: Exchange) -> bool:
        """Whether a stream is asked for."""

    def answer(self, exchange: Exchange) -> Payload:
        """The answer, whole."""

    def stream(self, exchange: Exchange) -> Iterator[bytes]:
        """The same answer as the chunks of a stream."""

    def problem(self, status: int, message: str) -> Payload:
        """The body of an error."""


def tokens(value: Payload) -> int:
    """How many tokens this is, by the rule of thumb of four characters each."""
    return (len(value if isinstance(value, str) else json.dumps(value)) + 3) // 4


def pieces(text: str) -> Iterator[str]:
    """The text in the small pieces in which a model says it."""
    for start in range(0, len(text), PIECE_LENGTH):
        yield text[start : start + PIECE_LENGTH]


def signature(text: str) -> str:
    """What proves that thinking was not tampered with on its way back."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def is_signed(text: str, claimed: str | None) -> bool:
    """Whether this is the text's signature; google-genai sends it back in base64's other alphabet."""
    return claimed is not None and claimed.replace("-", "+").replace("_", "/") == signature(text)


def sse(data: Payload, event: str | None = None) -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()
