"""Writes message lists as differences to earlier lists (`history="delta"`), so that a document does not repeat them.

The deltas of streamed responses are something else: `dialects/chat_chunks.py` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages, NumberedMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_comparison import EarlierLists, Numbers

MAX_DELTA_CANDIDATES = 8
"""An interaction is compared with at most this many earlier interactions, the newest ones.

If sub-agents take turns, more than one is needed.
"""


class Repetition(NamedTuple):
    """The messages of an earlier interaction or step that a list repeats.

    `since` is the id of the earlier one, or None. If its first messages are repeated, `kept` is how many. Otherwise
    `kept` has the ranges of their positions. `places` are the positions of the list's other messages, up to the last
    repeated one. All messages from the position `end` on are others too.
    """

    since: str | None
    kept: Payload
    places: Sequence[int]
    end: int

    def members(self) -> dict[str, Payload]:
        """Return the members of a delta that come before its messages."""
        members: dict[str, Payload] = {"since": self.since, "kept": self.kept}
        if self.places:
            members["places"] = [*self.places]
        return members

    def others(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages of a delta: those of the list `messages` that are not repeated."""
        if not self.places:
            return messages[self.end :]
        positions = (*self.places, *range(self.end, len(messages)))
        if isinstance(messages, NumberedMessages):
            return messages.at(positions)
        return [*map(messages.__getitem__, positions)]


@dataclass(slots=True)
class MessageDeltas:
    """Makes the deltas of interactions.

    Each delta is the difference to the earlier interaction that has most of the same messages.

    Pass each interaction once, in the order of the run. So a delta always refers to an earlier interaction.
    `numbers_of` returns the numbers of a list of messages, where equal messages have equal numbers. If it returns None,
    the list is not compared with others, and its delta repeats all messages.
    """

    numbers_of: Callable[[Sequence[Message]], Numbers | None] = field(
        default_factory=lambda: EqualMessages(json_key).numbers_of
    )
    _earlier: EarlierLists[str] = field(default_factory=lambda: EarlierLists(MAX_DELTA_CANDIDATES))

    def delta_of(self, interaction: LLMInteraction) -> dict[str, Payload] | None:
        """Return the member that replaces `input_messages`, or None if the request is not known."""
        if not interaction.source.has_request():
            return None
        return {"input_messages_delta": self.delta(interaction.interaction_id, interaction.input_messages)}

    def delta(self, identity: str, messages: Sequence[Message]) -> dict[str, Payload]:
        """Return the delta of the messages of an interaction or a step with the id `identity`."""
        repetition = self.repetition(identity, messages)
        others = [message.to_document() for message in repetition.others(messages)]
        return {**repetition.members(), "messages": others}

    def repetition(self, identity: str, messages: Sequence[Message]) -> Repetition:
        """Return what the messages of an interaction or a step repeat, and remember the messages."""
        numbers = self.numbers_of(messages)
        if numbers is None:
            return Repetition(None, 0, (), 0)
        since, kept = self._earlier.most_kept(numbers)
        self._earlier.add(identity, numbers)
        match kept.ranges:
            case []:
                return Repetition(since, 0, kept.places, kept.end)
            case [[0, last]]:
                return Repetition(since, last + 1, kept.places, kept.end)
            case ranges:
                return Repetition(since, ranges, kept.places, kept.end)
