"""Reading requests one after another: what a request repeats of an earlier one is not read again.

`Readings.read` takes requests in order and gives what the document needs to know of each: its messages as they are
written there, what tools brought back, and all that is not in its growing list. The elements of that list are read
one by one, as the dialect's own `read_request` does. Where a dialect reads neighbours together, or a request has an
unfamiliar form, `read` gives None: it has to be read as a whole.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from trace_recorder.dialects.call_ids import CallNumbering
from trace_recorder.dialects.readers import ElementReader, element_reader_of, merge_rule_of
from trace_recorder.dialects.split_messages import MergeRule, MessageGroup, read_groups
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values.json_text import writer
from trace_recorder.values.messages import Message, Payload, RequestReading, ToolResult

MAX_PREFIXES = 64
"""How many conversations are remembered; agents that take turns need one each."""
MIN_CACHED_BYTES = 1024
"""One of fewer bytes is remembered for the next request alone: reading it costs no more than looking for it."""
MAX_PREFIX_BYTES = 16 * 1024 * 1024
MAX_OTHER_PREFIX_BYTES = 8 * 1024 * 1024
"""Of how many bytes the messages of the newest are, and those of the others together, at most."""
_PREAMBLE = -1
"""The number of what stands before the growing list, such as a system prompt."""

_MAX_SEARCHES = 16
"""At how many places the end of a list is looked for, where its first element is repeated."""

_SEPARATOR = b", "

Render = Callable[[Message], bytes]
Ranges = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class IncrementalReading:
    """What is known of a request.

    `offer` is all of it but its messages. These are the first `count` of `texts`, a text for each element, with a comma
    before each message but the first. The ones before `new` are, in order, those of the interaction `since` at the
    positions `kept`, ranges with their ends.
    """

    offer: RequestReading
    texts: Sequence[bytes]
    count: int
    since: str | None
    kept: Ranges
    new: int
    results: tuple[ToolResult, ...]
    made_up: int

    def messages(self, start: int = 0) -> list[bytes]:
        """The messages of the elements from `start` on, in parts, with commas between them."""
        parts = list(self.texts[start : self.count])
        first = next((at for at, text in enumerate(parts) if text), None)
        if first is not None:
            parts[first] = parts[first].removeprefix(_SEPARATOR)
        return parts


def result_of(message: Message) -> ToolResult:
    """A tool message as a result. Only some dialects say that a tool failed; where none does, that is unknown."""
    failed = message.extra.get("is_error")
    if failed is True:
        return ToolResult(message.call_id or "", message.name, success=False, error=_error_text(message.content))
    success = True if failed is False else None
    return ToolResult(message.call_id or "", message.name, success=success, result=message.content)


def _error_text(content: Payload) -> str:
    """An error as text: of parts that are texts, each on a line of its own; anything else as JSON."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    said = [text for text in texts if isinstance(text, str)]
    if len(said) == len(texts):
        return "\n".join(said)
    return "" if content is None else json.dumps(content, ensure_ascii=False)


class RequestReader:
    """Reads the requests of one run; `render` writes a message."""

    def __init__(self, items: ItemTable, render: Render) -> None:
        self._items = items
        self._render = render
        self._prefixes: list[_ConversationPrefix] = []

    def read(self, interaction_id: str, begin: Mapping[str, Payload]) -> IncrementalReading | None:
        """What is known of a request, from the data of its record; None where it has to be read as a whole.

        Raises KeyError where a record that it needs is missing.
        """
        parts = begin.get("items", {})
        reader, history = element_reader_of(begin.get("api")) or (None, "")
        if reader is None or not isinstance(parts.get(history), list | dict):
            return None
        numbers = array("q", (_PREAMBLE, *self._items.numbers(history, parts[history])))
        others = {name: part for name, part in parts.items() if name != history}
        key = _dump([begin["api"], begin["body"], others])
        same = [prefix for prefix in self._prefixes if prefix.key == key]
        prefix = _find_prefix(same, numbers) or (same[0].restarted() if same else None)
        self._prefixes = [
            other for other in self._prefixes if other is not prefix
        ]  # what fails leaves none half continued
        if prefix is None:
            base = reader.read_request(self._items.expand({"body": begin["body"], "items": others}) | {history: []})
            prefix = _ConversationPrefix(key, replace(base, messages=[]), merge_rule_of(begin["api"]))
            prefix.append([_PREAMBLE], MessageGroup(1, base.messages), self._render)
        if not self._append_new(prefix, reader, numbers):
            prefix = prefix.restarted()
            self._append_new(prefix, reader, numbers)
        self._prefixes = _remembered([prefix, *self._prefixes])
        return prefix.reading(interaction_id)

    def _append_new(self, prefix: _ConversationPrefix, reader: ElementReader, numbers: array[int]) -> bool:
        """Have a lane take the elements that it has not yet; False where they are one with those that it has."""
        new = numbers[len(prefix.numbers) :]
        has_begun, place = False, 0
        for group in read_groups(map(self._items.element, new), reader.read_message, prefix.merge_rule):
            if not has_begun and prefix.merges_with(group):
                return False
            has_begun = has_begun or bool(group.messages)  # null is an element without a message
            prefix.append(new[place : place + group.size], group, self._render)
            place += group.size
        return True

    def forget(self, interaction_id: str) -> None:
        """Write nothing against an interaction."""
        self._prefixes = [prefix for prefix in self._prefixes if prefix.interaction_id != interaction_id]


def _find_prefix(prefixes: list[_ConversationPrefix], numbers: array[int]) -> _ConversationPrefix | None:
    """The lane that a list continues, or else one made of what it shares with another."""
    for prefix in prefixes:
        if numbers[: len(prefix.numbers)] == prefix.numbers:
            prefix.begin_request(prefix.all_messages())
            return prefix
    for prefix in prefixes:
        positions = prefix.matching_positions(numbers)
        if positions:
            return prefix.sliced(positions)
    return None


def _remembered(prefixes: list[_ConversationPrefix]) -> list[_ConversationPrefix]:
    """The lanes to remember, the newest first, without small ones, and without the oldest ones beyond the limits."""
    others = [prefix for prefix in prefixes[1:] if prefix.size >= MIN_CACHED_BYTES][: MAX_PREFIXES - 1]
    while sum(map(_size_of, others)) > MAX_OTHER_PREFIX_BYTES:
        others.pop()
    return [*(prefix for prefix in prefixes[:1] if prefix.size <= MAX_PREFIX_BYTES), *others]


_size_of = attrgetter("size")
_dump = writer(",", ":")


class _ConversationPrefix:
    """A conversation as far as it has been read. Its texts only ever grow: all its requests begin with the same."""

    def __init__(self, key: str, offer: RequestReading, merge_rule: MergeRule | None) -> None:
        self.key = key
        self.numbers = array("q")
        self.interaction_id: str | None = None
        self.size = 0
        self.merge_rule = merge_rule
        self._offer = offer
        self._last_message: Message | None = None
        self._texts: list[bytes] = []
        self._ends = array("q", [0])
        self._results: list[ToolResult] = []
        self._last_assistant = _PREAMBLE
        self._numbering = CallNumbering()
        self._since: str | None = None
        self._kept: Ranges = ()
        self._new = 0
        self._next_start: tuple[Ranges, int] = (), 0

    def append(self, numbers: Sequence[int], group: MessageGroup, render: Render) -> None:
        """Take the messages of elements that were read together: they stand with the last of these."""
        for number in numbers[:-1]:
            self._append_element(number, b"", 0)
        taken = [self._numbering.number(message) for message in group.messages]
        for message in taken:
            if message.role == "assistant":
                self._results, self._last_assistant = [], len(self.numbers)
            elif message.role == "tool":
                self._results.append(result_of(message))
        self._last_message = group.last if taken else self._last_message
        self._append_element(numbers[-1], b"".join([_SEPARATOR + render(message) for message in taken]), len(taken))

    def merges_with(self, group: MessageGroup) -> bool:
        """Whether the first of these would be one message with the last that is here."""
        if self.merge_rule is None or self._last_message is None or group.first is None:
            return False
        return self.merge_rule.continues(self._last_message, group.first)

    def _append_element(self, number: int, text: bytes, messages: int) -> None:
        if not self._ends[-1]:
            text = text.removeprefix(_SEPARATOR)  # here, so that what every request begins with is not copied for each
        self.numbers.append(number)
        self._texts.append(text)
        self._ends.append(self._ends[-1] + messages)
        self.size += len(text)

    def begin_request(self, kept: Ranges) -> None:
        """Begin another request, which keeps these messages of the last one."""
        self._next_start = kept, len(self.numbers)

    def reading(self, interaction_id: str) -> IncrementalReading:
        """What is known of the request that ends here; one that is read again stands on the same as before."""
        if interaction_id != self.interaction_id:
            self._since, (self._kept, self._new), self.interaction_id = (
                self.interaction_id,
                self._next_start,
                interaction_id,
            )
        since = self._since if self._kept else None
        new = self._new if self._kept else 0
        results, made_up = tuple(self._results), self._numbering.made_up
        return IncrementalReading(self._offer, self._texts, len(self._texts), since, self._kept, new, results, made_up)

    def matching_positions(self, numbers: array[int]) -> list[int]:
        """Where the first elements of a list stand here: its beginning, and behind a hole all of the end.

        None do where what has been read depends on what stood before it, or where there is no such end. A list of which
        less than a half may stand here is not looked at.
        """
        if (
            self.merge_rule
            or self._numbering.made_up
            or numbers[min((len(numbers) + 1) // 2, len(numbers) - 1)] not in self.numbers
        ):
            return []
        pairs = zip(self.numbers, numbers, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(numbers))
        end = same
        for _ in range(_MAX_SEARCHES if same < len(numbers) else 0):
            try:
                end = self.numbers.index(numbers[same], end)
            except ValueError:
                break
            if self.numbers[end:] == numbers[same : same + len(self.numbers) - end]:
                return [*range(same), *range(end, len(self.numbers))] if self._keeps_results(same, end) else []
            end += 1
        return []

    def _keeps_results(self, same: int, end: int) -> bool:
        """Whether what tools brought back is the same without the elements between these positions."""
        return end <= self._last_assistant or (self._last_assistant < same and not self._results)

    def restarted(self) -> _ConversationPrefix:
        """A lane with nothing but what stands before the list."""
        prefix = _ConversationPrefix(self.key, self._offer, self.merge_rule)
        prefix._append_element(_PREAMBLE, self._texts[0], self._ends[1])
        return prefix

    def sliced(self, positions: list[int]) -> _ConversationPrefix:
        """A lane that begins with the elements at these positions."""
        prefix = _ConversationPrefix(self.key, self._offer, self.merge_rule)
        for position in positions:
            messages = self._ends[position + 1] - self._ends[position]
            prefix._append_element(self.numbers[position], self._texts[position], messages)
        if self._last_assistant in positions:
            prefix._last_assistant = positions.index(self._last_assistant)
        prefix._results, prefix.interaction_id = list(self._results), self.interaction_id
        prefix.begin_request(self.ranges_of(positions))
        return prefix

    def all_messages(self) -> Ranges:
        """The range of all its messages."""
        return ((0, self._ends[-1] - 1),) if self._ends[-1] else ()

    def ranges_of(self, positions: Iterable[int]) -> Ranges:
        """The ranges of messages that elements stand for."""
        ranges: list[tuple[int, int]] = []
        for position in positions:
            first, last = self._ends[position], self._ends[position + 1] - 1
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1] = ranges[-1][0], last
            elif first <= last:
                ranges.append((first, last))
        return tuple(ranges)
