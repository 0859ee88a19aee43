"""Conversations from sources that repeat the whole history with each call, as spans and logs of calls do.

`Histories.add` finds the conversation that a list of messages continues, so that each message is stored once. The work
is linear in the size of the source.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.imports.foreign.run import Conversation, Members

_MAX_OPEN = 16
"""How many conversations are compared with; a run seldom has more sub-agents at once."""


@dataclass(slots=True)
class _Known:
    conversation: Conversation
    keys: list[int]

    def shared(self, keys: Sequence[int]) -> int:
        """Return how many of the first messages are the same."""
        pairs = zip(self.keys, keys, strict=False)
        return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(self.keys), len(keys)))


@dataclass(slots=True)
class Histories:
    """The conversations of a run, by the messages of its calls."""

    _known: list[_Known] = field(default_factory=list)

    def add(self, messages: Sequence[Members]) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and their number.

        They continue the conversation that has most of them, or a fork of it where they differ.
        """
        keys = [_key(message) for message in messages]
        best, shared = max(
            ((one, one.shared(keys)) for one in self._known), key=lambda found: found[1], default=(None, 0)
        )
        if best is None or not shared:
            best = _Known(Conversation(), [])
            self._known.append(best)
        elif shared < min(len(best.keys), len(keys)):
            best = _Known(best.conversation.fork(shared), best.keys[:shared])
            self._known.append(best)
        del self._known[:-_MAX_OPEN]
        for message, key in zip(messages[len(best.keys) :], keys[len(best.keys) :], strict=True):
            best.conversation.add(message)
            best.keys.append(key)
        return best.conversation, len(messages)


def _key(message: Members) -> int:
    return hash(json.dumps(message, sort_keys=True))
