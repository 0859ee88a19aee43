"""The table of a run's messages. It has each message once, and a prompt is an array of the numbers of its messages.

The table has the messages that a dialect's reader made, including made-up ids. The reader merges neighbouring elements
of a request that belong to one message. The numbers of items in a journal are different numbers: in a journal, no
elements are merged, and the same element may have two numbers.

`EqualMessages` gives equal messages equal numbers, by one of the equalities of `message_equality.py`. `MadeOnce` keeps
the value that a view makes from a message. Both do their work once for each message, even if many prompts have the
message.

The requests of a conversation begin with the same messages. So each request is a range of one shared list
(`SharedSequence`), or of one shared array of numbers (`NumberedMessages`), and copies no elements.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar, overload

from trace_recorder.values.messages import Message, Tool
from trace_recorder.values.prompt_comparison import Numbers, SharedNumbers, replace_kept
from trace_recorder.values.structs import Struct, asdict

Element = TypeVar("Element", covariant=True)  # noqa: PLC0105 - users see this name in type hints


class ImmutableSequence(Sequence[Element]):
    """An immutable sequence that equals any list, and any other immutable sequence, with equal elements.

    `+` returns a list.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # like a list, which has no hash

    @overload
    def __getitem__(self, index: int) -> Element: ...

    @overload
    def __getitem__(self, index: slice) -> ImmutableSequence[Element]: ...

    @abstractmethod
    def __getitem__(self, index: int | slice) -> Element | ImmutableSequence[Element]:
        """Return an element, or for a slice an immutable sequence."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ImmutableSequence):
            return len(other) == len(self) and list(other) == list(self)
        if isinstance(other, list):
            return list(self) == other
        return NotImplemented

    def __add__(self, other: Iterable[Element]) -> list[Element]:
        if isinstance(other, list | ImmutableSequence):
            return [*self, *other]
        return NotImplemented

    def __radd__(self, other: Iterable[Element]) -> list[Element]:
        if isinstance(other, list):
            return [*other, *self]
        return NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))


class SharedSequence(ImmutableSequence[Element]):
    """The elements of a list from `start` to before `stop`. The list may grow, but must not change otherwise.

    A slice with step 1 shares the list, too.
    """

    __slots__ = ("_elements", "_start", "_stop")

    def __init__(self, elements: Sequence[Element] = (), start: int = 0, stop: int | None = None) -> None:
        self._elements = elements
        self._start = start
        self._stop = len(elements) if stop is None else stop

    @classmethod
    def of(cls, elements: Sequence[Element]) -> ImmutableSequence[Element]:
        """Return `elements` as an immutable sequence. The elements are not copied."""
        if type(elements) is NumberedMessages or isinstance(elements, ImmutableSequence):  # the latter takes longer
            return elements
        return cls(elements)

    def extended(self, others: Iterable[Element]) -> SharedSequence[Element]:
        """Return these elements followed by `others`.

        If this sequence ends where its list ends, the list is extended. Otherwise the elements are copied.
        """
        elements = self._elements
        if not isinstance(elements, list) or self._stop != len(elements):
            return SharedSequence([*self, *others])
        elements.extend(others)
        return SharedSequence(elements, self._start)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Element: ...

    @overload
    def __getitem__(self, index: slice) -> SharedSequence[Element]: ...

    def __getitem__(self, index: int | slice) -> Element | SharedSequence[Element]:
        if isinstance(index, int) and 0 <= index < self._stop - self._start:  # the usual index, without a range
            return self._elements[self._start + index]
        places = range(self._start, self._stop)[index]
        if isinstance(places, int):
            return self._elements[places]
        if places.step == 1:
            return SharedSequence(self._elements, places.start, max(places.start, places.stop))
        return SharedSequence([self._elements[place] for place in places])

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements[self._start : self._stop])

    def __reversed__(self) -> Iterator[Element]:
        if self._stop == len(self._elements):
            return islice(reversed(self._elements), len(self))
        return map(self._elements.__getitem__, range(self._stop - 1, self._start - 1, -1))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SharedSequence) and other._elements is self._elements:
            return (other._start == self._start and other._stop == self._stop) or super().__eq__(other)
        return super().__eq__(other)

    __hash__ = None  # like a list, which has no hash


Made = TypeVar("Made")
Key = Callable[[Message], bytes]
"""A function that gives equal messages equal keys."""

MAX_LISTS = 64
"""`EqualMessages` remembers its numbers for at most this many arrays of a table's message numbers.

The prompts of a conversation share one array. If agents take turns, each agent needs an array.
"""


MAX_LOOKED_UP = 256
"""For a new array with at most this many numbers, `EqualMessages` looks up each of them.

To find which of them a known array has would take longer.
"""
_NO_NUMBERS = array("q")


class MessageTable:
    """The messages of a run.

    The number of a message is its index in `messages`. If `puts_away` is True, `put_away` may free a message and keep a
    function that reads the message again.
    """

    def __init__(self, messages: Iterable[Message] = (), *, puts_away: bool = False) -> None:
        self.messages: list[Message] = _Messages(messages) if puts_away else [*messages]
        self.replaced: list[int] = []
        """The numbers of the messages that were replaced, in this order."""
        self._numbers = {id(message): number for number, message in enumerate(self.messages)}
        self._keys: dict[Key, dict[int, bytes]] = {}
        self._with_ids: dict[Hashable, tuple[Message, Message]] = {}
        self._instructions: dict[str, Message] = {}
        self._tool_lists: dict[str, Sequence[Tool]] = {}

    def __reduce__(self) -> tuple[type[MessageTable], tuple[list[Message]]]:
        return MessageTable, (self.messages,)

    def number_of(self, message: Message) -> int:
        """Return the number of a message. If the table does not have the object `message`, add it."""
        number = self._numbers.get(id(message))
        if number is None:
            number = self._numbers[id(message)] = len(self.messages)
            self.messages.append(message)
        return number

    def put_away(self, message: Message, read_again: Callable[[Any], list[Message]], key: Hashable, place: int) -> None:
        """Free the object of a message.

        The message keeps its number. On the next access, `read_again(key)[place]` returns the message.
        """
        number = self._numbers.pop(id(message), None)
        if number is not None:
            self.messages[number] = _PutAway(read_again, key, place)  # type: ignore[call-overload]  # `_Messages` reads it

    def replace(self, message: Message, known: Message) -> None:
        """Replace a message by the same message, of which more is known.

        It keeps its number, so all prompts that have it share what is known.
        """
        number = self._numbers.pop(id(message), None)
        if number is None:
            return
        self.messages[number] = known
        self.replaced.append(number)
        self._numbers[id(known)] = number
        for keys in self._keys.values():
            keys.pop(number, None)

    def with_ids(self, message: Message, numbered: Message) -> Message:
        """Return `numbered`, which is `message` with made-up ids.

        If an equal message was returned before, return that object, so that requests share it.
        """
        if numbered is message:
            return message
        key = id(message), numbered.call_id, *(call.call_id for call in numbered.tool_calls)
        return self._with_ids.setdefault(key, (message, numbered))[1]

    def instruction(self, message: Message) -> Message:
        """Return the run's first instruction with the same JSON as `message`, with the members in the same order."""
        return self._instructions.setdefault(json.dumps(message.to_document()), message)

    def tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return the run's first list of tools with the same JSON as `tools`, with the members in the same order.

        Models see that order.
        """
        return self._tool_lists.setdefault(json.dumps([*map(asdict, tools)]), tools)

    def prompt(self, messages: Iterable[Message] = ()) -> NumberedMessages:
        """Add messages to the table, and return them as a prompt."""
        return NumberedMessages(self, array("q", map(self.number_of, messages)))

    def key_of(self, number: int, key: Key) -> bytes:
        """Return the key of a message. Each key is computed once."""
        keys = self._keys.setdefault(key, {})
        message_key = keys.get(number)
        if message_key is None:
            message_key = keys[number] = key(self.messages[number])
        return message_key


class _Messages(list[Message]):
    """A list of messages.

    An element may be a `_PutAway`. Each access to it reads the message again and does not store it.
    """

    def __getitem__(self, number: Any) -> Any:
        message = super().__getitem__(number)
        if isinstance(message, _PutAway):
            return message.read_again(message.key)[message.place]
        return message


class _PutAway(Struct, frozen=True, gc=False):
    """A message that was freed. `read_again(key)[place]` returns the message."""

    read_again: Callable[[Any], list[Message]]
    key: Hashable
    place: int


class NumberedMessages(ImmutableSequence[Message]):
    """The messages of a table whose numbers are in an array from `start` to before `stop`.

    The prompts of a conversation share the array. The array may grow, but must not change otherwise. A slice with step
    1 shares the array, too.
    """

    __slots__ = ("_numbers", "_start", "_stop", "table")

    def __init__(self, table: MessageTable, numbers: Numbers, start: int = 0, stop: int | None = None) -> None:
        self.table = table
        self._numbers = numbers
        self._start = start
        self._stop = len(numbers) if stop is None else stop

    def place(self) -> SharedNumbers:
        """Return the shared array, and the range of these messages' numbers in it.

        Do not change the array.
        """
        return SharedNumbers(self._numbers, self._start, self._stop)

    @property
    def numbers(self) -> Numbers:
        """The numbers of the messages in the table."""
        return self._numbers[self._start : self._stop]

    def at(self, positions: Iterable[int]) -> NumberedMessages:
        """Return the messages at these positions."""
        return NumberedMessages(self.table, array("q", map(self.numbers.__getitem__, positions)))

    def extended(self, messages: Iterable[Message]) -> NumberedMessages:
        """Add messages to the table, and return a prompt with this prompt's messages followed by the added ones."""
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
        if isinstance(index, int) and 0 <= index < self._stop - self._start:  # the usual index, without a range
            return self.table.messages[self._numbers[self._start + index]]
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

    __hash__ = None  # like a list, which has no hash


class _MadeOfTable(dict[int, Made]):
    """The values that were made from messages of a table, by number. A missing value is made on the first access.

    No line of Python runs for a value that is there.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> Made:
        made = self[number] = self._make(number)
        return made


class MadeOnce(Generic[Made]):
    """Makes a value from each message once, however many prompts have the message.

    `make` takes a table and the number of a message in it. A message that is in no table is added to a table of this
    object.
    """

    def __init__(self, make: Callable[[MessageTable, int], Made]) -> None:
        self._make = make
        self._made: dict[MessageTable, _MadeOfTable[Made]] = {}
        self._others = MessageTable()

    @classmethod
    def by(cls, make: Callable[[Message], Made]) -> MadeOnce[Made]:
        """Return a `MadeOnce` with a function that takes only the message."""
        return cls(lambda table, number: make(table.messages[number]))

    def of(self, messages: Sequence[Message]) -> list[Made]:
        """Return the value that was made from each of `messages`, in their order."""
        numbered = self.numbered(messages)
        table = numbered.table
        made = self._made.get(table)
        if made is None:
            made = self._made[table] = _MadeOfTable(partial(self._make, table))
        return [*map(made.__getitem__, numbered.numbers)]

    def numbered(self, messages: Sequence[Message]) -> NumberedMessages:
        """Return messages as `NumberedMessages`. If they are in no table, add them to the table of this object."""
        if isinstance(messages, NumberedMessages):
            return messages
        return self._others.prompt(messages)

    def clear(self) -> None:
        """Forget the values that were made, and the messages in the table of this object."""
        self._made, self._others = {}, MessageTable()


class EqualMessages:
    """Gives numbers to messages, so that equal messages have equal numbers.

    The numbers begin at 0, in the order of their first use. `messages` has the first message of each number.
    """

    def __init__(self, key: Key) -> None:
        self.messages: list[Message] = []
        self._key = key
        self._by_key: dict[bytes, int] = {}
        self._equal = MadeOnce(self._number)
        self._lists: OrderedDict[int, tuple[Numbers, Numbers]] = OrderedDict()
        self._newest: dict[MessageTable, tuple[Numbers, Numbers]] = {}

    def numbers_of(self, prompt: Sequence[Message]) -> Numbers:
        """Return the numbers of the messages of a prompt."""
        return self.shared_numbers_of(prompt).copy()

    def shared_numbers_of(self, prompt: Sequence[Message]) -> SharedNumbers:
        """Return the numbers of the messages of a prompt. They are not copied.

        The prompts of a conversation share one array of the table's numbers. The results for that array are remembered,
        so only new messages cost work.
        """
        messages = self._equal.numbered(prompt)
        place = messages.place()
        numbers, stop = place.array, place.stop
        known = self._lists.pop(id(numbers), None)
        if known is None:
            known = numbers, self._numbers_of_array(NumberedMessages(messages.table, numbers, 0, stop))
        equal = known[1]
        if len(equal) < stop:
            equal.extend(self._equal.of(NumberedMessages(messages.table, numbers, len(equal), stop)))
        self._lists[id(numbers)] = known
        if len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        self._newest[messages.table] = known
        return SharedNumbers(equal, place.start, stop)

    def _numbers_of_array(self, messages: NumberedMessages) -> Numbers:
        """Return the numbers of messages of a new array. They often differ little from those of the newest array."""
        table, numbers = messages.table, messages.numbers
        if len(numbers) <= MAX_LOOKED_UP:
            return array("q", self._equal.of(messages))
        newest, equal = self._newest.get(table, (_NO_NUMBERS, _NO_NUMBERS))
        return replace_kept(
            newest[: len(equal)], equal, numbers, lambda others: self._equal.of(NumberedMessages(table, others))
        )

    def find(self, key: bytes) -> int | None:
        """Return the number of the messages that have this key, or None if no message has it."""
        return self._by_key.get(key)

    def _number(self, table: MessageTable, number: int) -> int:
        equal = self._by_key.setdefault(table.key_of(number, self._key), len(self.messages))
        if equal == len(self.messages):
            self.messages.append(table.messages[number])
        return equal
