"""Messages in a normalized form, which stays equal if an agent sends them back slightly changed.

A normalized message is one message, or several consecutive messages of an assistant. Messages without content are left
out. White space, thoughts that are not sent back, cache marks, leftovers of a server's own tools, and the ids of tool
calls make no difference. A tool result is identified by the call that it answers: by the message with the call, and the
index of the call in that message. `values/message_equality.py` defines this equality.

Each distinct normalized message of the run has a number, and is made once. `normalized_prompts.py` has the prompts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, repeat
from operator import attrgetter, mod, mul
from typing import NamedTuple

from trace_recorder.values.message_equality import NormalizedContent, normalized_content
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message
from trace_recorder.values.prompt_comparison import Numbers
from trace_recorder.values.structs import Struct

AnsweredCall = tuple[bytes, int]
"""The tool call that a tool result answers: the identity of the calling message, and the index of the call in it."""


class NormalizedMessage:
    """One or several messages of a prompt, without their positions: all prompts of a run share these objects.

    `call_id` is the id that a tool result has. `key` is the identity of the message within a run. The key of a tool
    result has the call that it answers, if that call is known. `term` is a number that is made from the key.
    """

    __slots__ = ("call_id", "content", "key", "term")

    def __init__(
        self, content: NormalizedContent, call_id: str | None = None, answered_call: AnsweredCall | None = None
    ) -> None:
        self.content = content
        self.call_id = call_id
        self.key: Hashable = content.identity
        digest = content.digest
        if answered_call is not None:
            identity, index = answered_call
            self.key = digest, identity, index
            digest = blake2b(digest + identity + b"%d" % index, digest_size=16).digest()
        self.term = int.from_bytes(digest, "big")


class PlacedMessages(NamedTuple):
    """Normalized messages, each with the positions in the prompt where it begins and ends."""

    messages: list[NormalizedMessage]
    begins: list[int]
    ends: list[int]


class MessageNormalizer:
    """Normalizes the messages of a run, and keeps each distinct normalized message under a number.

    The numbers begin at 1. `results` has the numbers of the results of tool calls, by the ids of the calls.
    """

    def __init__(self) -> None:
        self.messages: dict[int, NormalizedMessage] = {}
        self.results: dict[str, set[int]] = defaultdict(set)
        self._numbers: dict[Hashable, int] = {}
        self._identities: dict[bytes, int] = {}
        self._contents: dict[MessageTable, dict[tuple[int, ...], NormalizedContent | None]] = defaultdict(dict)
        self._others = MessageTable()
        self._called_ids: set[str] = set()

    def normalize(self, messages: Sequence[Message]) -> PlacedMessages:
        """Normalize messages that begin a prompt."""
        placed = PlacedMessages([], [], [])
        for group in self.groups(self.numbered(messages), 0, len(messages)):
            if group.content is not None:
                number = self.number_of(group.content, group.call_id, lambda: reversed(placed.messages))
                placed.messages.append(self.messages[number])
                placed.begins.append(group.begin)
                placed.ends.append(group.end)
        return placed

    def groups(self, messages: NumberedMessages, start: int, stop: int) -> Iterator[_NormalizedGroup]:
        """Yield the groups of the messages from `start` to before `stop` that form one normalized message each."""
        if start >= stop:
            return
        contents, numbers = self._contents[messages.table], messages.place().copy(start, stop)
        new = [*map(messages.table.messages.__getitem__, numbers)]
        begin = 0
        while begin < len(new):
            first, end = new[begin], begin + 1
            if first.role == "assistant":
                while end < len(new) and new[end].role == "assistant":
                    end += 1
            key = (*numbers[begin:end],)
            if key in contents:
                content = contents[key]
            else:
                content = contents[key] = self.content_of_new(new[begin:end])
            call_id = None
            if first.role == "tool":
                call_id = first.call_id or ""
            yield _NormalizedGroup(content, call_id, start + begin, start + end)
            begin = end

    def number_of(
        self,
        content: NormalizedContent,
        call_id: str | None,
        known: Callable[[], Iterable[NormalizedMessage]],
        before: NormalizedContent | None = None,
    ) -> int:
        """Return the number of a normalized message.

        `known` returns the messages before it, from the last to the first. `before` is the answer before these
        messages, if the prompt does not repeat that answer.
        """
        answered = None
        if call_id is not None and call_id in self._called_ids:
            answered = _answered_call(call_id, known(), before)
        key = content, call_id, answered
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.messages) + 1
            self.messages[number] = NormalizedMessage(content, call_id, answered)
            if call_id is not None:
                self.results[call_id].add(number)
        return number

    def number_of_answer(self, content: NormalizedContent) -> int:
        """Return a number that all answers with the same identity have."""
        return self._identities.setdefault(content.identity, len(self._identities))

    def content_of(self, table: MessageTable, numbers: Numbers) -> NormalizedContent | None:
        """Return the content of the messages that form one normalized message, or None if these messages are empty.

        `numbers` are their numbers in `table`.
        """
        contents, key = self._contents[table], (*numbers,)
        if key not in contents:
            contents[key] = self.content_of_new([table.messages[number] for number in key])
        return contents[key]

    def content_of_new(self, messages: Sequence[Message]) -> NormalizedContent | None:
        """Return what `content_of` returns, of messages that nobody asks for again."""
        content = normalized_content(messages)
        if content is not None and content.calls:
            self._called_ids.update([call.call_id for call in content.calls])
        return content

    def numbered(self, messages: Sequence[Message]) -> NumberedMessages:
        """Return messages with their numbers in a table.

        Messages without numbers get numbers in a table of this object.
        """
        if isinstance(messages, NumberedMessages):
            return messages
        return self._others.prompt(messages)


class _NormalizedGroup(Struct, frozen=True, gc=False):
    """The messages at the positions from `begin` to before `end`, which form one normalized message.

    `content` is None if they are empty. `call_id` is the id that a tool result has.
    """

    content: NormalizedContent | None
    call_id: str | None
    begin: int
    end: int


def _answered_call(
    call_id: str, known: Iterable[NormalizedMessage], before: NormalizedContent | None
) -> AnsweredCall | None:
    """Return the last call with the id `call_id` before a tool result, or None.

    `known` are the messages before the result, from the last to the first, because a result usually follows its call.
    The answer `before` is searched last.
    """
    for message in known:
        index = _last_call(message.content, call_id)
        if index is not None:
            return message.content.identity, index
    index = _last_call(before, call_id)
    if before is None or index is None:
        return None
    return before.identity, index


def _last_call(content: NormalizedContent | None, call_id: str) -> int | None:
    """Return the index of the last tool call with the id `call_id` in a message, or None."""
    if content is None:
        return None
    for index in reversed(range(len(content.calls))):
        if content.calls[index].call_id == call_id:
            return index
    return None


def is_instruction(message: Message) -> bool:
    """Whether the role of a message is "system" or "developer"."""
    return message.role in {"system", "developer"}


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

MODULUS = 2**127 - 1
_BASE = int.from_bytes(blake2b(b"a sequence of messages", digest_size=15).digest(), "big")
_INVERSE = pow(_BASE, -1, MODULUS)
_POWERS = [1]
"""The factor of each place, for `sum_of_messages`."""


def sum_of_messages(messages: Sequence[NormalizedMessage], place: int, start: int = 0) -> int:
    """Return a number that identifies a sequence of messages, from a place in a longer sequence on.

    `start` is the sum of the messages before. The sum has the term of each message, multiplied by a factor of its
    place. So an edit of one message changes one summand. If all messages move by the same number of places, their sum
    is multiplied by one factor (`moved_sum`). No line of Python runs for each message.
    """
    total: int = sum(map(mul, map(_term, messages), _powers(place, place + len(messages))), start)
    return total % MODULUS


def sums_of_messages(messages: Sequence[NormalizedMessage], place: int, end: int) -> list[int]:
    """Return the sum up to each message, from a place in a sequence on. `end` is the sum of the whole sequence."""
    summands = [*map(mul, map(_term, messages), _powers(place, place + len(messages)))]
    sums = accumulate(summands, initial=end - sum(summands))
    return [*map(mod, sums, repeat(MODULUS))][1:]


def _powers(begin: int, end: int) -> list[int]:
    """Return the factors of the places from `begin` to before `end`. Several threads may ask."""
    while (known := len(_POWERS)) < end:
        # Set at its place, and not appended: another thread may have added the same factor meanwhile.
        _POWERS[known : known + 1] = [_POWERS[known - 1] * _BASE % MODULUS]
    return _POWERS[begin:end]


def moved_sum(total: int, places: int) -> int:
    """Return the sum of messages that move by a number of places, which may be negative."""
    if places < 0:
        return total * pow(_INVERSE, -places, MODULUS) % MODULUS
    return total * _powers(places, places + 1)[0] % MODULUS


_term = attrgetter("term")
