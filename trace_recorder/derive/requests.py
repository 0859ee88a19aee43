"""Reading requests one after another: what a request repeats of an earlier one is not read again.

Each request repeats the history of its conversation. `RequestReader` takes requests in order and reads only the new
elements of the history, one by one, as the dialect's own `read_request` does. A request in an unfamiliar form gives
None and has to be read as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import partial
from operator import attrgetter

from trace_recorder.derive.message_prefix import PREAMBLE, IncrementalReading, MessagePrefix, Render
from trace_recorder.derive.table_prompts import ElementReadings, TablePrompts
from trace_recorder.dialects.dialect import Dialect, History, dialect_of
from trace_recorder.dialects.split_messages import MessageGroup, read_groups
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.message_table import MessageTable
from trace_recorder.values.messages import Message, Payload, RequestReading
from trace_recorder.values.shared_sequence import SharedSequence
from trace_recorder.values.structs import replace

MAX_PREFIXES = 64
"""How many conversations are remembered. Agents that take turns need one each."""
MIN_CACHED_BYTES = 1024
"""A smaller prefix is kept only for the next request: reading it again costs no more than searching for it."""
MAX_PREFIX_BYTES = 16 * 1024 * 1024
"""Of a larger prefix no texts are kept."""
MAX_OTHER_PREFIX_BYTES = 8 * 1024 * 1024
"""How many bytes all prefixes but the newest may take together."""


class RequestReader:
    """Reads the requests of one run.

    It may `keep` messages in a table. Then each distinct message of the run is read once. All requests share it, also
    with another reader that has the same `readings`. Or `keep` is a function that renders a message as JSON. Then
    little more than the texts of a few conversations is in memory. `needs_all_texts` says whether the messages that a
    request repeats are rendered too. If only new ones are, a large prefix is remembered without its texts. Otherwise it
    is forgotten.
    """

    def __init__(
        self,
        items: ItemTable,
        keep: MessageTable | Render,
        *,
        max_prefixes: int = MAX_PREFIXES,
        readings: dict[str, ElementReadings] | None = None,
    ) -> None:
        self.needs_all_texts = True
        self._max_prefixes = max_prefixes
        self._items = items
        self._table_prompts: TablePrompts | None = None
        if isinstance(keep, MessageTable):
            self._table_prompts = TablePrompts(items, keep)
        else:
            self._render: Render = keep
        self._prefixes: list[MessagePrefix] = []
        self.readings: dict[str, ElementReadings] = {} if readings is None else readings

    def read(
        self, interaction_id: str, dialect: str | None, data: Mapping[str, Payload], history: str = ""
    ) -> IncrementalReading | None:
        """Read a request from the data of its record; None if it has to be read as a whole.

        `history` is the name of its messages, if it is not the one that requests of this dialect have. Raises KeyError
        if a record that it needs is missing.
        """
        items = data.get("items", {})
        reader = dialect_of(dialect)
        if reader is None or reader.history is None:
            return None
        history = history or reader.history.member
        if not isinstance(items.get(history), list | dict):
            return None
        numbers = _BEGINNING + self._items.numbers(history, items[history])
        request = _Request(reader, reader.history, history, data["body"], items)
        if self._table_prompts is not None:
            readings = self.readings.get(reader.name) or self._new_readings(request)
            begin = partial(self._without_history, request)
            return self._table_prompts.read(interaction_id, request.key, numbers, readings, begin)
        prefix = self._take_prefix(request.key, numbers) or self._new_prefix(request)
        while True:
            if not self._append_new(prefix, request, numbers):
                prefix = prefix.copied()
                self._append_new(prefix, request, numbers)
            reading = prefix.reading(interaction_id)
            if reading is not None:
                break
            prefix = self._new_prefix(request)  # texts are missing that this request needs: all of it is read
        remember = _remembered if self.needs_all_texts else _remembered_without_texts
        self._prefixes = remember(prefix, self._prefixes, self._max_prefixes)
        return reading

    def _take_prefix(self, key: str, numbers: array[int]) -> MessagePrefix | None:
        """Take out the prefix that a request continues, or make one of what it shares with another; None if nothing.

        If the rest of the request fails, the prefix is not kept.
        """
        same = [prefix for prefix in self._prefixes if prefix.key == key]
        for prefix in same:
            if numbers[: len(prefix.numbers)] == prefix.numbers:
                prefix.begin_request(prefix.all_messages())
                self._prefixes.remove(prefix)
                return prefix
        for prefix in same:
            if positions := prefix.matching_positions(numbers):
                return prefix.sliced(positions)
        return same[0].copied() if same else None

    def _new_prefix(self, request: _Request) -> MessagePrefix:
        """Make a prefix with only what comes before the history."""
        offer, messages = self._without_history(request)
        prefix = MessagePrefix(
            request.key, offer, request.elements.merge_rule, self._render, numbered=request.dialect.numbers_calls
        )
        prefix.append([PREAMBLE], MessageGroup(1, messages))
        return prefix

    def _without_history(self, request: _Request) -> tuple[RequestReading, list[Message]]:
        """Read a request without its history. Return the messages that come before it apart."""
        body = self._items.expand({"body": request.body, "items": request.other_items})
        base = request.dialect.read_request(body | {request.history: []})
        return replace(base, messages=SharedSequence(), tools=SharedSequence.of(base.tools)), [*base.messages]

    def _append_new(self, prefix: MessagePrefix, request: _Request, numbers: array[int]) -> bool:
        """Append the elements that a prefix does not have yet. False if the first one merges with its last message."""
        new = numbers[len(prefix.numbers) :]
        read, merge_rule = request.elements.read_message, prefix.merge_rule
        if merge_rule is None:
            for number in new:
                prefix.append_element(number, read(self._items.element(number)))
            return True
        has_begun, place = False, 0
        for group in read_groups(map(self._items.element, new), read, merge_rule):
            if not has_begun and prefix.merges_with(group):
                return False
            has_begun = has_begun or bool(group.messages)  # a null element has no message
            prefix.append(new[place : place + group.size], group)
            place += group.size
        return True

    def _new_readings(self, request: _Request) -> ElementReadings:
        """Return the readings that all requests of a dialect share."""
        dialect, elements = request.dialect, request.elements
        readings = ElementReadings(elements.read_message, elements.merge_rule, makes_up_ids=dialect.numbers_calls)
        self.readings[dialect.name] = readings
        return readings

    def forget(self, interaction_id: str) -> None:
        """Forget the interaction that was read last: no later request is written as a delta to it."""
        for prefix in self._prefixes:
            if prefix.interaction_id == interaction_id:
                prefix.hide_last()


class _Request:
    """One request: its dialect, how and under which name it has its history, and all that it has beside the history.

    Two requests with the same `key` differ only in their history.
    """

    def __init__(
        self, dialect: Dialect, elements: History, history: str, body: Payload, items: Mapping[str, Payload]
    ) -> None:
        self.dialect, self.elements, self.history, self.body = dialect, elements, history, body
        self.other_items = dict(items)
        del self.other_items[history]
        self.key = _dump([dialect.name, body, self.other_items])


def _remembered(newest: MessagePrefix, others: list[MessagePrefix], at_most: int) -> list[MessagePrefix]:
    """Return the prefixes to keep, newest first, within the limits."""
    others = [prefix for prefix in others if prefix.read_size >= MIN_CACHED_BYTES][: at_most - 1]
    while others and sum(map(_size_of, others)) > MAX_OTHER_PREFIX_BYTES:
        others.pop()
    return [newest, *others] if newest.size <= MAX_PREFIX_BYTES else others


def _remembered_without_texts(newest: MessagePrefix, others: list[MessagePrefix], at_most: int) -> list[MessagePrefix]:
    """Return the same, but keep no texts of prefixes that would not be kept; those of the oldest are dropped first."""
    size = sum(map(_size_of, others))
    for at in reversed(range(len(others))):
        if size > MAX_OTHER_PREFIX_BYTES:
            size -= others[at].size
            others[at] = others[at].without_texts()
            size += others[at].size
    return _remembered(newest if newest.size <= MAX_PREFIX_BYTES else newest.without_texts(), others, at_most)


_BEGINNING = array("q", [PREAMBLE])
_size_of = attrgetter("size")
_dump = make_json_writer(",", ":")
