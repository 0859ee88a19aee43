"""Reading requests one after another: what a request repeats of an earlier one is not read again.

Each request repeats the history of its conversation. `RequestReader` takes requests in order and reads only the new
elements of the history, one by one, as the dialect's own `read_request` does. A request in an unfamiliar form gives
None and has to be read as a whole.
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
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Message, Payload, RequestReading, ToolResult

MAX_PREFIXES = 64
"""How many conversations are remembered. Agents that take turns need one each."""
MIN_CACHED_BYTES = 1024
"""A smaller prefix is kept only for the next request: reading it again costs no more than searching for it."""
MAX_PREFIX_BYTES = 16 * 1024 * 1024
"""A larger prefix is not kept."""
MAX_OTHER_PREFIX_BYTES = 8 * 1024 * 1024
"""How many bytes all prefixes but the newest may take together."""
_PREAMBLE = -1
"""The number that stands for everything before the history, such as a system prompt."""

_MAX_SEARCHES = 16
"""In how many places the end of a history is searched for, if its first element is repeated."""

_SEPARATOR = b", "

Render = Callable[[Message], bytes]
Ranges = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class IncrementalReading:
    """A request that was read together with earlier ones.

    `offer` is all of it but its messages. The messages are the first `count` of `texts`, one text for each element of
    the history, with a comma before each message but the first. The messages before element `new` are those of
    interaction `since` at the positions `kept`, inclusive ranges. `results` are the tool results since the model last
    spoke, `made_up` is how many calls of the request have made-up ids.
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
        """Return the texts of the elements from `start` on, with commas between the messages."""
        parts = list(self.texts[start : self.count])
        first = next((at for at, text in enumerate(parts) if text), None)
        if first is not None:
            parts[first] = parts[first].removeprefix(_SEPARATOR)
        return parts


def result_of(message: Message) -> ToolResult:
    """Read a tool message as a result. Whether the tool failed is unknown in dialects that do not say so."""
    failed = message.extra.get("is_error")
    if failed is True:
        return ToolResult(message.call_id or "", message.name, success=False, error=_error_text(message.content))
    success = True if failed is False else None
    return ToolResult(message.call_id or "", message.name, success=success, result=message.content)


def _error_text(content: Payload) -> str:
    """An error as text: text parts one a line; anything else as JSON."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    said = [text for text in texts if isinstance(text, str)]
    if len(said) == len(texts):
        return "\n".join(said)
    return "" if content is None else json.dumps(content, ensure_ascii=False)


class RequestReader:
    """Reads the requests of one run. `render` writes a message as JSON."""

    def __init__(self, items: ItemTable, render: Render, *, max_prefixes: int = MAX_PREFIXES) -> None:
        self._max_prefixes = max_prefixes
        self._items = items
        self._render = render
        self._prefixes: list[_ConversationPrefix] = []

    def read(self, interaction_id: str, data: Mapping[str, Payload]) -> IncrementalReading | None:
        """Read a request from the data of its record; None if it has to be read as a whole.

        Raises KeyError if a record that it needs is missing.
        """
        items = data.get("items", {})
        reader, history = element_reader_of(data.get("api")) or (None, "")
        if reader is None or not isinstance(items.get(history), list | dict):
            return None
        numbers = array("q", (_PREAMBLE, *self._items.numbers(history, items[history])))
        prefix = self._take_prefix(data, history, numbers) or self._new_prefix(data, reader, history)
        if not self._append_new(prefix, reader, numbers):
            prefix = prefix.restarted()
            self._append_new(prefix, reader, numbers)
        self._prefixes = _remembered([prefix, *self._prefixes], self._max_prefixes)
        return prefix.reading(interaction_id)

    def _take_prefix(
        self, data: Mapping[str, Payload], history: str, numbers: array[int]
    ) -> _ConversationPrefix | None:
        """Take out the prefix that a request continues; if the rest of the request fails, it is not kept."""
        key = _key(data, history)
        same = [prefix for prefix in self._prefixes if prefix.key == key]
        found = _find_prefix(same, numbers) or (same[0].restarted() if same else None)
        self._prefixes = [prefix for prefix in self._prefixes if prefix is not found]
        return found

    def _new_prefix(self, data: Mapping[str, Payload], reader: ElementReader, history: str) -> _ConversationPrefix:
        """Make a prefix with only what comes before the history."""
        body = self._items.expand({"body": data["body"], "items": _other_items(data, history)})
        base = reader.read_request(body | {history: []})
        prefix = _ConversationPrefix(_key(data, history), replace(base, messages=[]), merge_rule_of(data["api"]))
        prefix.append([_PREAMBLE], MessageGroup(1, base.messages), self._render)
        return prefix

    def _append_new(self, prefix: _ConversationPrefix, reader: ElementReader, numbers: array[int]) -> bool:
        """Append the elements that a prefix does not have yet. False if the first one merges with its last message."""
        new = numbers[len(prefix.numbers) :]
        has_begun, place = False, 0
        for group in read_groups(map(self._items.element, new), reader.read_message, prefix.merge_rule):
            if not has_begun and prefix.merges_with(group):
                return False
            has_begun = has_begun or bool(group.messages)  # a null element has no message
            prefix.append(new[place : place + group.size], group, self._render)
            place += group.size
        return True

    def forget(self, interaction_id: str) -> None:
        """Forget an interaction: no later request is written as a delta to it."""
        self._prefixes = [prefix for prefix in self._prefixes if prefix.interaction_id != interaction_id]


def _key(data: Mapping[str, Payload], history: str) -> str:
    """What two requests have in common that differ only in their history."""
    return _dump([data["api"], data["body"], _other_items(data, history)])


def _other_items(data: Mapping[str, Payload], history: str) -> dict[str, Payload]:
    return {name: part for name, part in data["items"].items() if name != history}


def _find_prefix(prefixes: list[_ConversationPrefix], numbers: array[int]) -> _ConversationPrefix | None:
    """Return the prefix that a history continues, or a new one made of what it shares with another."""
    for prefix in prefixes:
        if numbers[: len(prefix.numbers)] == prefix.numbers:
            prefix.begin_request(prefix.all_messages())
            return prefix
    for prefix in prefixes:
        positions = prefix.matching_positions(numbers)
        if positions:
            return prefix.sliced(positions)
    return None


def _remembered(prefixes: list[_ConversationPrefix], at_most: int) -> list[_ConversationPrefix]:
    """Return the prefixes to keep, newest first, within the limits."""
    others = [prefix for prefix in prefixes[1:] if prefix.size >= MIN_CACHED_BYTES][: at_most - 1]
    while sum(map(_size_of, others)) > MAX_OTHER_PREFIX_BYTES:
        others.pop()
    return [*(prefix for prefix in prefixes[:1] if prefix.size <= MAX_PREFIX_BYTES), *others]


_size_of = attrgetter("size")
_dump = make_json_writer(",", ":")


class _ConversationPrefix:
    """A conversation as far as it was read. Its list of texts only grows: all its requests share the beginning."""

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
        """Append the messages of elements that were read together. They are filed under the last of these elements."""
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
        """Whether the first message of a group would be one message with the last one here."""
        if self.merge_rule is None or self._last_message is None or group.first is None:
            return False
        return self.merge_rule.continues(self._last_message, group.first)

    def _append_element(self, number: int, text: bytes, messages: int) -> None:
        if not self._ends[-1]:
            text = text.removeprefix(_SEPARATOR)  # removed once here, and not in each request
        self.numbers.append(number)
        self._texts.append(text)
        self._ends.append(self._ends[-1] + messages)
        self.size += len(text)

    def begin_request(self, kept: Ranges) -> None:
        """Begin another request, which keeps these messages of the last one."""
        self._next_start = kept, len(self.numbers)

    def reading(self, interaction_id: str) -> IncrementalReading:
        """Return the reading of the request that ends here. Reading the same request again gives the same base."""
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
        """Return the positions of a history's first elements here: its beginning, and after a hole all of the end.

        Return none if the reading of an element depends on earlier ones, or if there is no such end. A history of which
        less than half can be here is not searched.
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
        """Whether the newest tool results stay the same without the elements between two positions."""
        return end <= self._last_assistant or (self._last_assistant < same and not self._results)

    def restarted(self) -> _ConversationPrefix:
        """Return a prefix with only what comes before the history."""
        prefix = _ConversationPrefix(self.key, self._offer, self.merge_rule)
        prefix._append_element(_PREAMBLE, self._texts[0], self._ends[1])
        return prefix

    def sliced(self, positions: list[int]) -> _ConversationPrefix:
        """Return a prefix that begins with the elements at these positions."""
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
        """Return the range of all messages."""
        return ((0, self._ends[-1] - 1),) if self._ends[-1] else ()

    def ranges_of(self, positions: Iterable[int]) -> Ranges:
        """Return the ranges of the messages of some elements."""
        ranges: list[tuple[int, int]] = []
        for position in positions:
            first, last = self._ends[position], self._ends[position + 1] - 1
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1] = ranges[-1][0], last
            elif first <= last:
                ranges.append((first, last))
        return tuple(ranges)
