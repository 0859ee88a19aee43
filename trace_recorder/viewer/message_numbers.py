"""Numbers for the messages of a run: each distinct message has one, in the order in which they were first sent.

Two messages are equal where all their members are, but for cache marks, which move from call to call. The requests of
a conversation share lists of messages (`SharedSequence`), so a list that only grew is not gone through again.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from hashlib import blake2b

from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.viewer.prompt_changes import Numbers
from trace_recorder.views.content.cache_marks import without_cache_marks

MAX_LISTS = 64
"""How many lists of messages are remembered. Agents that take turns need one each."""


class MessageNumbers:
    """The distinct messages of a run. A number never changes."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._by_digest: dict[bytes, int] = {}
        self._by_identity: dict[int, tuple[Message, int]] = {}
        self._lists: dict[int, tuple[Sequence[Message], Numbers]] = {}

    def numbers_of(self, prompt: SharedSequence[Message]) -> Numbers:
        """Return the numbers of the messages of a prompt, in order."""
        messages, start, stop = prompt.place()
        _, numbers = self._lists.pop(id(messages), (messages, array("q")))
        numbers.extend([self._number(messages[at]) for at in range(len(numbers), stop)])
        self._lists[id(messages)] = messages, numbers
        if len(self._lists) > MAX_LISTS:
            del self._lists[next(iter(self._lists))]
        return numbers[start:stop]

    def _number(self, message: Message) -> int:
        known = self._by_identity.get(id(message))
        if known is not None:
            return known[1]
        key = _digest(message)
        number = self._by_digest.setdefault(key, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        self._by_identity[id(message)] = message, number
        return number


def _digest(message: Message) -> bytes:
    said: Payload = message.to_document()
    text = json.dumps(said, sort_keys=True)
    if isinstance(message.content, list) or '"cache_control"' in text:
        text = json.dumps(without_cache_marks(said), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()
