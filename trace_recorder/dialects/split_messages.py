"""Elements of a request that are one message with their neighbours, in the dialects that spread a message over several.

Whether two are one is for the dialect to say, and what they are together. An element that says nothing parts none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.values.messages import Message, Payload


@dataclass(frozen=True, slots=True)
class MergeRule:
    """What such a dialect says of neighbours.

    `continues` is whether an element is one message with the one before it, each read by itself; `merge` makes one
    message of elements that are, given with what each of them says by itself.
    """

    continues: Callable[[Message, Message], bool]
    merge: Callable[[Sequence[Payload], Sequence[Message]], Message]


@dataclass(slots=True)
class MessageGroup:
    """Elements that were read together: how many they are, and their messages.

    `first` and `last` are what the first and the last of them say by themselves; None where they say nothing.
    """

    size: int = 0
    messages: list[Message] = field(default_factory=list)
    first: Message | None = None
    last: Message | None = None


def read_groups(
    elements: Iterable[Payload], read: Callable[[Payload], list[Message]], merge_rule: MergeRule | None
) -> Iterator[MessageGroup]:
    """Read elements in order, those that are one message together; without a joiner, each by itself."""
    if merge_rule is None:
        yield from (MessageGroup(1, read(element)) for element in elements)
        return
    gathered = _OpenGroup(merge_rule)
    for element in elements:
        said = read(element)
        if not gathered.take(element, said):
            yield from gathered.groups()
            gathered = _OpenGroup(merge_rule)
            gathered.take(element, said)
    yield from gathered.groups()


class _OpenGroup:
    """Elements as long as they are one message, and behind them what says nothing."""

    def __init__(self, merge_rule: MergeRule) -> None:
        self._merge_rule = merge_rule
        self._elements: list[Payload] = []
        self._is_lossless: list[Message] = []
        self._size = 0
        self._behind = 0

    def take(self, element: Payload, said: list[Message]) -> bool:
        """Take one more element; False where it is no part of these."""
        if not said:
            self._behind += 1
            return True
        if self._size and not self._is_one_with(said):
            return False
        self._elements.append(element)
        self._is_lossless += said
        self._size, self._behind = self._size + self._behind + 1, 0
        return True

    def _is_one_with(self, said: list[Message]) -> bool:
        alone = len(said) == 1 and len(self._is_lossless) == len(self._elements)
        return alone and self._merge_rule.continues(self._is_lossless[-1], said[0])

    def groups(self) -> Iterator[MessageGroup]:
        """Give the group, and one of what says nothing behind it."""
        if self._size:
            several = len(self._elements) > 1
            messages = [self._merge_rule.merge(self._elements, self._is_lossless)] if several else self._is_lossless
            yield MessageGroup(self._size, messages, self._is_lossless[0], self._is_lossless[-1])
        if self._behind:
            yield MessageGroup(self._behind)
