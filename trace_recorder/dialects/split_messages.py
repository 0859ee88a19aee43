"""Messages that a dialect splits over several elements of a request.

The dialect decides whether neighbours are one message, and how they are merged. Elements without a message, such as
null, do not separate their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from trace_recorder.values.messages import Message, Payload
from trace_recorder.values.structs import Struct, field


class MergeRule(Struct, frozen=True):
    """How a dialect merges neighbouring elements.

    `continues` returns whether an element belongs to the same message as the element before it. `merge` makes one
    message from several elements. Its arguments are the elements and their separate readings.
    """

    continues: Callable[[Message, Message], bool]
    merge: Callable[[Sequence[Payload], Sequence[Message]], Message]


class MessageGroup(Struct):
    """Elements that were read together: their number, and their messages.

    `first` and `last` are the separate readings of the first and the last element with a message. They are None if no
    element has a message.
    """

    size: int = 0
    messages: list[Message] = field(default_factory=list)
    first: Message | None = None
    last: Message | None = None


def read_groups(
    elements: Iterable[Payload], read: Callable[[Payload], list[Message]], merge_rule: MergeRule | None
) -> Iterator[MessageGroup]:
    """Read elements in order.

    The elements of one message are read together. If `merge_rule` is None, each element is read separately.
    """
    if merge_rule is None:
        yield from (MessageGroup(1, read(element)) for element in elements)
        return
    gathered = _OpenGroup(merge_rule)
    for element in elements:
        messages = read(element)
        if not gathered.take(element, messages):
            yield from gathered.groups()
            gathered = _OpenGroup(merge_rule)
            gathered.take(element, messages)
    yield from gathered.groups()


class _OpenGroup:
    """Elements that form one message so far, and the elements without a message that follow them."""

    def __init__(self, merge_rule: MergeRule) -> None:
        self._merge_rule = merge_rule
        self._elements: list[Payload] = []
        self._messages: list[Message] = []
        self._size = 0
        self._trailing = 0

    def take(self, element: Payload, messages: list[Message]) -> bool:
        """Add an element. Returns False if it does not belong to this group."""
        if not messages:
            self._trailing += 1
            return True
        if self._size:
            are_single = len(messages) == 1 and len(self._messages) == len(self._elements)
            if not are_single or not self._merge_rule.continues(self._messages[-1], messages[0]):
                return False
        self._elements.append(element)
        self._messages += messages
        self._size, self._trailing = self._size + self._trailing + 1, 0
        return True

    def groups(self) -> Iterator[MessageGroup]:
        """Yield the group of the messages, and then a group for the following elements, which have no message."""
        if self._size:
            messages = self._messages
            if len(self._elements) > 1:
                messages = [self._merge_rule.merge(self._elements, self._messages)]
            yield MessageGroup(self._size, messages, self._messages[0], self._messages[-1])
        if self._trailing:
            yield MessageGroup(self._trailing)
