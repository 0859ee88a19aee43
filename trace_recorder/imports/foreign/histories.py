"""Conversations from sources that repeat the whole history with each call, as spans and logs of calls do.

A prompt continues the conversation with which it has the longest beginning in common, so that each message is stored
once. Prompts are compared as numbers of messages, and the work is linear in the size of the source.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trace_recorder.imports.foreign.run import Conversation, Members
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.prompt_changes import Numbers
from trace_recorder.values.prompt_relation import EarlierLists

_MAX_OPEN = 16
"""How many conversations are compared with; a run seldom has more sub-agents at once."""


@dataclass(slots=True)
class NumberedHistories:
    """The conversations of a run, by the numbers of their messages. `read` returns a message by its number."""

    read: Callable[[int], Members]
    _known: EarlierLists[Conversation] = field(default_factory=lambda: EarlierLists(_MAX_OPEN))

    def add(self, numbers: Numbers) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and how many of them had to be added to it.

        They continue the conversation that has most of them, or a fork of it where they differ.
        """
        conversation, shared = self._known.longest_beginning(numbers)
        if conversation is None:
            conversation = Conversation()
        elif shared < min(len(conversation), len(numbers)):
            conversation = conversation.fork(shared)
        new = numbers[len(conversation) :]
        for number in new:
            conversation.add(self.read(number))
        if new:
            self._known.add(conversation, numbers)
        return conversation, len(new)


@dataclass(slots=True)
class Histories:
    """The conversations of a run, by the messages of its calls."""

    _messages: list[Members] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _histories: NumberedHistories = field(init=False)

    def __post_init__(self) -> None:
        self._histories = NumberedHistories(self._messages.__getitem__)

    def add(self, messages: Sequence[Members]) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and their number."""
        conversation, _ = self.add_counted(messages)
        return conversation, len(messages)

    def add_counted(self, messages: Sequence[Members]) -> tuple[Conversation, int]:
        """Return the conversation whose first messages these are, and how many of them had to be added to it."""
        return self._histories.add(array("q", map(self._number, messages)))

    def _number(self, message: Members) -> int:
        number = self._numbers.setdefault(json_digest(message), len(self._messages))
        if number == len(self._messages):
            self._messages.append(message)
        return number
