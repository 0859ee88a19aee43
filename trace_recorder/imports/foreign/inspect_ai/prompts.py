"""The prompts of a sample's calls as conversations, in work that is linear in the file's size.

A log has each message of its prompts once, and a call states ranges of them; older logs have the messages in full,
which get a number here by what they say. `histories.py` finds the conversation that a prompt continues.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_int, as_list
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.histories import NumberedHistories
from trace_recorder.imports.foreign.run import Conversation, Members
from trace_recorder.values.messages import Payload

MAX_MESSAGES = 2_000_000
"""How many messages conversations may have together, where they do not share them."""
MAX_NUMBERS = 500_000_000
"""How many messages all prompts may have together."""
_MAX_RANGES = 100_000


@dataclass(slots=True)
class Prompts:
    """The messages of a sample by number, and the conversations that its calls made of them."""

    pool: list[Payload]
    read: Callable[[Payload], Members]
    _numbers: dict[str, int] = field(default_factory=dict)
    _messages: dict[int, Members] = field(default_factory=dict)
    _histories: NumberedHistories = field(init=False)
    _left: int = MAX_MESSAGES
    _numbers_left: int = MAX_NUMBERS

    def __post_init__(self) -> None:
        self._histories = NumberedHistories(self._message)

    def add(self, references: Payload, inline: list[Payload]) -> tuple[Conversation, int]:
        """Return the conversation of a prompt, the stated ranges and then the messages in full, and its length."""
        ranges = [span for pair in as_list(references)[:_MAX_RANGES] if (span := self._range(pair))]
        length = sum(map(len, ranges)) + len(inline)
        self._numbers_left -= length
        if length > MAX_MESSAGES:
            raise TrajectoryFormatError(f"a prompt of a sample has more than {MAX_MESSAGES} messages")
        if self._numbers_left < 0:
            raise TrajectoryFormatError(f"the prompts of a sample have more than {MAX_NUMBERS} messages")
        numbers = array("q")
        for span in ranges:
            numbers.extend(span)
        numbers.extend(map(self._number, inline))
        conversation, added = self._histories.add(numbers)
        self._left -= added
        if self._left < 0:
            raise TrajectoryFormatError(f"the prompts of a sample have more than {MAX_MESSAGES} messages")
        return conversation, length

    def _range(self, pair: Payload) -> range:
        """Return a pair of numbers as a range without the second; an empty range if the value is not such a pair."""
        numbers = [as_int(number) for number in as_list(pair)]
        if len(numbers) != 2 or None in numbers:
            return range(0)
        return range(max(0, numbers[0] or 0), min(len(self.pool), numbers[1] or 0))

    def _number(self, message: Payload) -> int:
        key = json.dumps(message, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.pool)
            self.pool.append(message)
        return self._numbers[key]

    def _message(self, number: int) -> Members:
        if number not in self._messages:
            self._messages[number] = self.read(self.pool[number])
        return self._messages[number]
