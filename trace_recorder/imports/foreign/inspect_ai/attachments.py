"""Texts and media that a sample has once, by their hash, and that its messages and events refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trace_recorder.values.messages import Payload

_PREFIXES = ("attachment://", "tc://")
MAX_CHARACTERS = 256 * 1024 * 1024
"""What the attachments of a sample may take together, each counted wherever it is referred to."""


@dataclass(slots=True)
class Attachments:
    """The attachments of a sample. `exceeded` says that some were not put in: they are too large together."""

    texts: Mapping[str, Payload]
    left: int = MAX_CHARACTERS
    exceeded: bool = False

    def put_in(self, value: Payload) -> Payload:
        """Return a JSON value with the attachments that it refers to. References to others stay."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.put_in(element) for element in value]
        if isinstance(value, dict):
            return {name: self.put_in(member) for name, member in value.items()}
        return value

    def _text(self, text: str) -> str:
        prefix = next((one for one in _PREFIXES if text.startswith(one)), None)
        attached = None if prefix is None else self.texts.get(text.removeprefix(prefix))
        if not isinstance(attached, str):
            return text
        if len(attached) > self.left:
            self.exceeded = True
            return text
        self.left -= len(attached)
        return attached
