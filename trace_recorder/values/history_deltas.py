"""Writes message lists as differences to earlier lists (`history="delta"`), so that a document does not repeat them.

The deltas of streamed responses are something else: `dialects/chat_chunks.py` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.message_equality import json_key
from trace_recorder.values.message_table import EqualMessages
from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.prompt_comparison import EarlierLists, Numbers

MAX_DELTA_CANDIDATES = 8
"""An interaction is compared with at most this many earlier interactions, the newest ones.

If sub-agents take turns, more than one is needed.
"""


class Repetition(NamedTuple):
    """The messages of an earlier interaction or step that a list repeats at its beginning.

    `since` is the id of the earlier one, or None. If its first messages are repeated, `kept` is how many. Otherwise
    `kept` has the ranges of their positions. `length` is how many messages are repeated.
    """

    since: str | None
    kept: Payload
    length: int


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
        repetition = self.kept_of(identity, messages)
        rest = [message.to_document() for message in messages[repetition.length :]]
        return {"since": repetition.since, "kept": repetition.kept, "messages": rest}

    def kept_of(self, identity: str, messages: Sequence[Message]) -> Repetition:
        """Return what the messages of an interaction or a step repeat, and remember the messages."""
        numbers = self.numbers_of(messages)
        if numbers is None:
            return Repetition(None, 0, 0)
        since, ranges = self._earlier.most_kept(numbers)
        self._earlier.add(identity, numbers)
        count = sum(last + 1 - first for first, last in ranges)
        is_beginning = not ranges or (len(ranges) == 1 and ranges[0][0] == 0)
        if is_beginning:
            return Repetition(since, count, count)
        return Repetition(since, ranges, count)
