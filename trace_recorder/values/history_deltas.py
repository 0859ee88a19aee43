"""Message lists as differences to earlier ones (`history="delta"`), so that a document does not repeat conversations.

The deltas of streamed responses are another matter: `dialects/chat_deltas.py`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Message, Payload

MAX_DELTA_CANDIDATES = 8
"""How many earlier interactions are compared with; sub-agents that take turns need more than one."""


@dataclass(slots=True)
class MessageDeltas:
    """Writes the messages of each interaction as a delta to the earlier one that shares the most messages with it.

    The earlier one is chosen once for each interaction, so that no two interactions can be deltas to each other.
    """

    _seen: deque[tuple[str, list[str]]] = field(default_factory=lambda: deque(maxlen=MAX_DELTA_CANDIDATES))
    _chosen: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def delta_of(self, one: LLMInteraction) -> dict[str, Payload] | None:
        """Return the members that replace `input_messages`; None if the request is not known."""
        if not one.source.has_request():
            return None
        return {"input_messages_delta": self.delta(one.interaction_id, one.input_messages)}

    def delta(self, identity: str, given: Iterable[Message]) -> dict[str, Payload]:
        """Return the delta of the messages of an interaction or a step, by its id."""
        messages = [message.to_document() for message in given]
        if identity not in self._chosen:
            self._choose(identity, [json.dumps(message, sort_keys=True) for message in messages])
        since, kept = self._chosen[identity]
        return {"since": since, "kept": kept, "messages": messages[kept:]}

    def _choose(self, identity: str, texts: list[str]) -> None:
        candidates = [(_common_length(texts, earlier), earlier_identity) for earlier_identity, earlier in self._seen]
        kept, since = max(candidates, key=itemgetter(0), default=(0, ""))
        self._seen.append((identity, texts))
        self._chosen[identity] = (since, kept) if kept else (None, 0)


def _common_length(texts: list[str], earlier: list[str]) -> int:
    """Return how many texts at the beginning of both lists are the same."""
    for position, (text, before) in enumerate(zip(texts, earlier, strict=False)):
        if text != before:
            return position
    return min(len(texts), len(earlier))
