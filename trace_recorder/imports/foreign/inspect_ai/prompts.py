"""The prompts of a sample's calls as conversations, in work that is linear in the file's size.

A log has each message of its prompts once, and a call states ranges of them; older logs have the messages in full,
which get a number here by what they say. A prompt continues the conversation with which it shares most messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_int, as_list
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.run import Conversation, Members
from trace_recorder.values.messages import Payload

_MAX_OPEN = 16
"""How many conversations are compared with; a sample seldom has more agents at once."""
MAX_MESSAGES = 2_000_000
"""How many messages conversations may have together, where they do not share them."""
_MAX_RANGES = 100_000

Range = tuple[int, int]
"""Numbers of messages, the second not included."""


@dataclass(slots=True)
class _Known:
    conversation: Conversation
    ranges: list[Range]
    length: int


@dataclass(slots=True)
class Prompts:
    """The messages of a sample by number, and the conversations that its calls made of them."""

    pool: list[Payload]
    read: Callable[[Payload], Members]
    _numbers: dict[str, int] = field(default_factory=dict)
    _messages: dict[int, Members] = field(default_factory=dict)
    _known: list[_Known] = field(default_factory=list)
    _left: int = MAX_MESSAGES

    def add(self, stated: Payload, inline: list[Payload]) -> tuple[Conversation, int]:
        """Return the conversation of a prompt, the stated ranges and then the messages in full, and its length."""
        ranges = _joined([*self._stated(stated), *((number, number + 1) for number in map(self._number, inline))])
        length = sum(last - first for first, last in ranges)
        best = max(self._known, key=lambda one: _shared(one.ranges, ranges), default=None)
        shared = 0 if best is None else _shared(best.ranges, ranges)
        if best is None or not shared:
            best = _Known(Conversation(), [], 0)
            self._known.append(best)
        elif shared < min(best.length, length):
            best = _Known(best.conversation.fork(shared), _first(best.ranges, shared), shared)
            self._known.append(best)
        del self._known[:-_MAX_OPEN]
        self._left -= max(0, length - best.length)
        if self._left < 0:
            raise TrajectoryFormatError(f"the prompts of a sample have more than {MAX_MESSAGES} messages")
        for number in _after(ranges, best.length):
            best.conversation.add(self._message(number))
        if length > best.length:
            best.ranges, best.length = ranges, length
        return best.conversation, length

    def _stated(self, stated: Payload) -> Iterable[Range]:
        for pair in as_list(stated)[:_MAX_RANGES]:
            numbers = [as_int(number) for number in as_list(pair)]
            if len(numbers) == 2 and None not in numbers:
                first, last = max(0, numbers[0] or 0), min(len(self.pool), numbers[1] or 0)
                if first < last:
                    yield first, last

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


def _joined(ranges: Iterable[Range]) -> list[Range]:
    found: list[Range] = []
    for first, last in ranges:
        if found and found[-1][1] == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def _shared(one: list[Range], other: list[Range]) -> int:
    """Return how many of the first numbers are the same."""
    shared = 0
    for (first, last), (other_first, other_last) in zip(one, other, strict=False):
        if first != other_first:
            break
        shared += min(last, other_last) - first
        if last != other_last:
            break
    return shared


def _first(ranges: list[Range], length: int) -> list[Range]:
    found: list[Range] = []
    for first, last in ranges:
        if length <= 0:
            break
        found.append((first, min(last, first + length)))
        length -= last - first
    return found


def _after(ranges: list[Range], length: int) -> Iterable[int]:
    """Yield the numbers after the first `length`."""
    for first, last in ranges:
        yield from range(min(last, first + max(0, length)), last)
        length -= last - first
