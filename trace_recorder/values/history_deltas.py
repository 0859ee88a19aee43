"""Message lists as differences to earlier ones (`history="delta"`), so that a document does not repeat conversations.

The deltas of streamed responses are another matter: `dialects/chat_deltas.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_relation import EarlierLists

MAX_DELTA_CANDIDATES = 8
"""How many earlier interactions are compared with; sub-agents that take turns need more than one."""


@dataclass(slots=True)
class MessageDeltas:
    """Writes the messages of each interaction as a delta to the earlier one that shares the longest beginning with it.

    Interactions are given in their order, each once, so that no two can be deltas to each other.
    """

    _messages: EqualMessages = field(default_factory=lambda: EqualMessages(json_key))
    _earlier: EarlierLists[str] = field(default_factory=lambda: EarlierLists(MAX_DELTA_CANDIDATES))

    def delta_of(self, one: LLMInteraction) -> dict[str, Payload] | None:
        """Return the members that replace `input_messages`; None if the request is not known."""
        if not one.source.has_request():
            return None
        return {"input_messages_delta": self.delta(one.interaction_id, one.input_messages)}

    def delta(self, identity: str, messages: Sequence[Message]) -> dict[str, Payload]:
        """Return the delta of the messages of an interaction or a step, by its id."""
        numbers = self._messages.numbers_of(messages)
        since, kept = self._earlier.longest_beginning(numbers)
        self._earlier.add(identity, numbers)
        return {"since": since, "kept": kept, "messages": [message.to_document() for message in messages[kept:]]}
