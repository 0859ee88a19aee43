"""Which messages of a run are the same, and which of a prompt another one does not have.

Two messages are the same where all their members are, but for cache marks, which move from call to call. A message that
prompts share is one object: it is compared once, and known by its identity from then on. The looser equality in
`views/conversations/normalized_messages.py` finds which call is continued.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b

from trace_recorder.values.messages import Message, Payload
from trace_recorder.views.content.cache_marks import without_cache_marks


class DistinctMessages:
    """The distinct messages of a run, numbered in the order in which they were first asked for.

    A number never changes.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._by_digest: dict[bytes, int] = {}
        self._by_identity: dict[int, tuple[Message, int]] = {}

    def number_of(self, message: Message) -> int:
        """Return the number of a message."""
        known = self._by_identity.get(id(message))
        if known is not None:
            return known[1]
        number = self._by_digest.setdefault(_digest(message), len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        self._by_identity[id(message)] = message, number
        return number


def messages_beyond(
    messages: Sequence[Message], before: Sequence[Message], key: Callable[[Message], Hashable]
) -> tuple[list[Message], int]:
    """Return the messages that others do not have, and how many of the others are gone. Equal keys are one message."""
    left, beyond = Counter(map(key, before)), []
    for message in messages:
        identity = key(message) if left else None
        if left[identity]:
            left[identity] -= 1
        else:
            beyond.append(message)
    return beyond, left.total()


def _digest(message: Message) -> bytes:
    said: Payload = message.to_document()
    text = json.dumps(said, sort_keys=True)
    if isinstance(message.content, list) or '"cache_control"' in text:
        text = json.dumps(without_cache_marks(said), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()
