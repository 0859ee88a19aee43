"""One request with the action that answers it, and helpers that every dialect uses to write the answer.

A dialect is a module with the names of the Protocol `Dialect`. It reads and writes. The policy decides what the answer
says.
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
"""The JSON of a request or an answer, in the form of the dialect."""

PIECE_LENGTH = 12


class RefusedError(Exception):
    """The provider refuses the request. A dialect writes the error."""

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
        """Return a readable id in the provider's form: prefix, request, part."""
        return f"{prefix}{self.number:06d}{part:02d}"

    @property
    def call_arguments(self) -> list[str]:
        """Return the arguments of each call, as JSON text."""
        return [json.dumps(call.arguments) for call in self.action.calls]

    @property
    def output_tokens(self) -> int:
        """Return the tokens of words and calls, without those of thinking."""
        return (
            tokens(self.action.text)
            + sum(tokens(call.name) for call in self.action.calls)
            + sum(tokens(arguments) for arguments in self.call_arguments)
        )

    @property
    def reasoning_tokens(self) -> int:
        """Return the tokens of thinking."""
        return tokens(self.action.reasoning)


class Dialect(Protocol):
    """The functions of a dialect's module."""

    STREAM_TYPE: str

    def owns(self, path: str, headers: Container[str]) -> bool:
        """Return whether a request is for this dialect, by its path and the names of its headers in small letters."""

    def read(self, path: str, body: Payload) -> Conversation:
        """Return the conversation in a request. Raise RefusedError if the provider would refuse it."""

    def streams(self, exchange: Exchange) -> bool:
        """Return whether the request asks for a stream."""

    def answer(self, exchange: Exchange) -> Payload:
        """Return the whole answer."""

    def stream(self, exchange: Exchange) -> Iterator[bytes]:
        """Return the same answer as the chunks of a stream."""

    def problem(self, status: int, message: str) -> Payload:
        """Return the body of an error."""


def tokens(value: Payload) -> int:
    """Return the number of tokens of a text, estimated as a quarter of its characters."""
    return (len(value if isinstance(value, str) else json.dumps(value)) + 3) // 4


def pieces(text: str) -> Iterator[str]:
    """Return a text in small pieces, as a model streams it."""
    for start in range(0, len(text), PIECE_LENGTH):
        yield text[start : start + PIECE_LENGTH]


def signature(text: str) -> str:
    """Return the signature of a text, which proves that thinking comes back unchanged."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def is_signed(text: str, claimed: str | None) -> bool:
    """Return whether this is the signature of the text. google-genai sends it back in base64's URL-safe alphabet."""
    return claimed is not None and claimed.replace("-", "+").replace("_", "/") == signature(text)


def sse(data: Payload, event: str | None = None) -> bytes:
    """Return a server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()
