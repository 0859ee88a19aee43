"""The messages of a run as a table: each is there once, and prompts are arrays of their numbers.

A message is in the table as it was read: in its dialect, with neighbours that are one message merged, and with made-up
ids. Items in a journal have other numbers: elements merge into messages, and an element may be on file twice.

`EqualMessages` gives equal messages equal numbers, by one of the equalities of `message_equality.py`. `MadeOnce` keeps
what a view makes of a message. Both do their work once for each message, however many prompts have it.
"""

from __future__ import annotations

import json
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from trace_recorder.values.messages import Message, Tool
from trace_recorder.values.prompt_changes import Numbers
from trace_recorder.values.shared_sequence import ImmutableSequence
from trace_recorder.values.structs import Struct, asdict

Made = TypeVar("Made")
Key = Callable[[Message], bytes]
"""A function that gives equal messages equal keys."""

MAX_LISTS = 64
"""How many arrays of numbers are remembered with their equal numbers.

If several agents take turns, each needs its own array.
"""


class MessageTable:
    """The messages of a run. The number of a message is its place in `messages`, which only grows.

    With `puts_away`, a message may be replaced by a function that reads it again, and the arguments of that.
    """

    def __init__(self, messages: Iterable[Message] = (), *, puts_away: bool = False) -> None:
        self.messages: list[Message] = _Messages(messages) if puts_away else [*messages]
        self._numbers = {id(message): number for number, message in enumerate(self.messages)}
        self._keys: dict[Key, dict[int, bytes]] = {}
        self._with_ids: dict[Hashable, tuple[Message, Message]] = {}
        self._instructions: dict[str, Message] = {}
        self._tool_lists: dict[str, Sequence[Tool]] = {}

    def __reduce__(self) -> tuple[type[MessageTable], tuple[list[Message]]]:
        return MessageTable, (self.messages,)

    def number_of(self, message: Message) -> int:
        """Return the number of a message, which is added if the table does not have this object."""
        number = self._numbers.get(id(message))
        if number is None:
            number = self._numbers[id(message)] = len(self.messages)
            self.messages.append(message)
        return number

    def put_away(self, message: Message, again: Callable[[Any], list[Message]], key: Hashable, place: int) -> None:
        """Forget a message as an object. Its number stays, and `again(key)[place]` reads it."""
        number = self._numbers.pop(id(message), None)
        if number is not None:
            self.messages[number] = _PutAway(again, key, place)  # type: ignore[call-overload]  # `_Messages` reads it

    def with_ids(self, message: Message, numbered: Message) -> Message:
        """Return a message with its made-up ids, the same object for each request in which it has these."""
        if numbered is message:
            return message
        key = id(message), numbered.call_id, *(call.call_id for call in numbered.tool_calls)
        return self._with_ids.setdefault(key, (message, numbered))[1]

    def instruction(self, message: Message) -> Message:
        """Return the first instruction of the run with the same JSON, the order of members included."""
        return self._instructions.setdefault(json.dumps(message.to_document()), message)

    def tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return the first list of tools of the run with the same JSON, in the same order of members: models see it."""
        return self._tool_lists.setdefault(json.dumps([*map(asdict, tools)]), tools)

    def prompt(self, messages: Iterable[Message] = ()) -> NumberedMessages:
        """Add messages, and return them as a prompt."""
        return NumberedMessages(self, array("q", map(self.number_of, messages)))

    def key_of(self, number: int, key: Key) -> bytes:
        """Return the key of a message, computed once for all that ask."""
        keys = self._keys.setdefault(key, {})
        message_key = keys.get(number)
        if message_key is None:
            message_key = keys[number] = key(self.messages[number])
        return message_key


class _Messages(list[Message]):
    """Messages, of which some are read again each time that they are asked for."""

    def __getitem__(self, number: Any) -> Any:
        message = super().__getitem__(number)
        return message.again(message.key)[message.place] if isinstance(message, _PutAway) else message


class _PutAway(Struct, frozen=True, gc=False):
    """A message that is read again: by this function, with its argument, and the place in what that returns."""

    again: Callable[[Any], list[Message]]
    key: Hashable
    place: int


class NumberedMessages(ImmutableSequence[Message]):
    """Messages of a table, from `start` to `stop` of an array of their numbers.

    The array may be extended, but not changed otherwise: the prompts of a conversation share it. A slice is such a
    sequence too.
    """

    __slots__ = ("_numbers", "_start", "_stop", "table")

    def __init__(self, table: MessageTable, numbers: Numbers, start: int = 0, stop: int | None = None) -> None:
        self.table = table
        self._numbers = numbers
        self._start = start
        self._stop = len(numbers) if stop is None else stop

    def place(self) -> tuple[Numbers, int, int]:
        """Return the array of numbers that has these, and where they begin and end in it. Do not change the array."""
        return self._numbers, self._start, self._stop

    @property
    def numbers(self) -> Numbers:
        """The numbers of the messages in the table."""
        return self._numbers[self._start : self._stop]

    def extended(self, messages: Iterable[Message]) -> NumberedMessages:
        """Add messages to the table, and return a prompt of these messages and the added ones."""
        numbers, start = self._numbers, self._start
        if self._stop != len(numbers):
            numbers, start = self.numbers, 0
        numbers.extend(map(self.table.number_of, messages))
        return NumberedMessages(self.table, numbers, start)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> NumberedMessages: ...

    def __getitem__(self, index: int | slice) -> Message | NumberedMessages:
        places = range(self._start, self._stop)[index]
        if isinstance(places, int):
            return self.table.messages[self._numbers[places]]
        if places.step == 1:
            return NumberedMessages(self.table, self._numbers, places.start, max(places.start, places.stop))
        return NumberedMessages(self.table, array("q", map(self._numbers.__getitem__, places)))

    def __iter__(self) -> Iterator[Message]:
        return map(self.table.messages.__getitem__, self._numbers[self._start : self._stop])

    def __reversed__(self) -> Iterator[Message]:
        places = range(self._stop - 1, self._start - 1, -1)
        return map(self.table.messages.__getitem__, map(self._numbers.__getitem__, places))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedMessages) and other.table is self.table and other.numbers == self.numbers:
            return True
        return super().__eq__(other)

    __hash__ = None  # as of a list


class MadeOnce(Generic[Made]):
    """Makes something of each message once, however many prompts have the message.

    `make` is given a table and the number of a message in it. Messages of no table get numbers by their identity.
    """

    def __init__(self, make: Callable[[MessageTable, int], Made]) -> None:
        self._make = make
        self._made: dict[MessageTable, dict[int, Made]] = {}
        self._others = MessageTable()

    @classmethod
    def by(cls, make: Callable[[Message], Made]) -> MadeOnce[Made]:
        """Make something of the message alone."""
        return cls(lambda table, number: make(table.messages[number]))

    def of(self, messages: Sequence[Message]) -> list[Made]:
        """Return what is made of some messages, in their order."""
        numbered = self.numbered(messages)
        numbers, table = numbered.numbers, numbered.table
        made = self._made.setdefault(table, {})
        missing = {*numbers} - made.keys()
        for number in filter(missing.__contains__, numbers) if missing else ():
            if number not in made:
                made[number] = self._make(table, number)
        return [*map(made.__getitem__, numbers)]

    def numbered(self, messages: Sequence[Message]) -> NumberedMessages:
        """Return messages with their numbers in a table."""
        return messages if isinstance(messages, NumberedMessages) else self._others.prompt(messages)

    def clear(self) -> None:
        """Forget what was made, and the messages of no table."""
        self._made, self._others = {}, MessageTable()


class EqualMessages:
    """Numbers for messages: equal messages have equal numbers. They count from 0, in the order of their first use.

    `messages` has the first of the equal messages of each number.
    """

    def __init__(self, key: Key) -> None:
        self.messages: list[Message] = []
        self._key = key
        self._by_key: dict[bytes, int] = {}
        self._equal = MadeOnce(self._number)
        self._lists: OrderedDict[int, tuple[Numbers, Numbers]] = OrderedDict()

    def numbers_of(self, prompt: Sequence[Message]) -> Numbers:
        """Return the numbers of messages.

        The prompts of a conversation share an array, and the equal numbers of it. So only new messages cost work.
        """
        messages = self._equal.numbered(prompt)
        numbers, start, stop = messages.place()
        _, equal = self._lists.pop(id(numbers), (numbers, array("q")))
        if len(equal) < stop:
            equal.extend(self._equal.of(NumberedMessages(messages.table, numbers, len(equal), stop)))
        self._lists[id(numbers)] = numbers, equal
        if len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        return equal[start:stop]

    def find(self, key: bytes) -> int | None:
        """Return the number of the messages with a key; None if no such message was given."""
        return self._by_key.get(key)

    def _number(self, table: MessageTable, number: int) -> int:
        equal = self._by_key.setdefault(table.key_of(number, self._key), len(self.messages))
        if equal == len(self.messages):
            self.messages.append(table.messages[number])
        return equal
