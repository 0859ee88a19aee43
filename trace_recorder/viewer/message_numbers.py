"""Numbers for the messages of a run: each distinct message has one, in the order in which they were first sent.

Which messages are equal is decided in `views/content/distinct_messages.py`. The requests of a conversation share lists
of messages (`SharedSequence`), so a list that only grew is not gone through again.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from trace_recorder.values.messages import Message
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.viewer.prompt_changes import Numbers
from trace_recorder.views.content.distinct_messages import DistinctMessages

MAX_LISTS = 64
"""How many lists of messages are remembered. Agents that take turns need one each."""


class MessageNumbers:
    """The distinct messages of a run. A number never changes."""

    def __init__(self) -> None:
        self._distinct = DistinctMessages()
        self.messages = self._distinct.messages
        self._lists: dict[int, tuple[Sequence[Message], Numbers]] = {}

    def numbers_of(self, prompt: SharedSequence[Message]) -> Numbers:
        """Return the numbers of the messages of a prompt, in order."""
        messages, start, stop = prompt.place()
        _, numbers = self._lists.pop(id(messages), (messages, array("q")))
        numbers.extend([self._distinct.number_of(messages[at]) for at in range(len(numbers), stop)])
        self._lists[id(messages)] = messages, numbers
        if len(self._lists) > MAX_LISTS:
            del self._lists[next(iter(self._lists))]
        return numbers[start:stop]
