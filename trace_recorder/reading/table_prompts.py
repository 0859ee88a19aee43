"""Reads the requests of a run as prompts: arrays of the numbers that messages have in the run's table.

A history is a list of elements. An element is an item of the journal, and is given by the item's number. If a request
continues an earlier prompt, it shares the array of that prompt, and only the new elements of its history are read. If
the agent has edited the history, ranges of the earlier array are copied, and only the elements at the edits are read.
If tool calls or results in an edited history need made-up ids, the whole history is read, because each made-up id
depends on all calls before it.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat, takewhile
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from trace_recorder.dialects.call_ids import CallNumbering, count_made_up
from trace_recorder.dialects.split_messages import MergeRule, read_groups
from trace_recorder.values.message_table import MessageTable, NumberedMessages
from trace_recorder.values.messages import Message, Payload, RequestReading, ToolResult
from trace_recorder.values.prompt_comparison import Numbers, changes_between
from trace_recorder.values.structs import Struct, field, replace


def newest_results(messages: Sequence[Message]) -> list[ToolResult]:
    """Return the tool results after the model's last message."""
    newest = takewhile(lambda message: message.role != "assistant", reversed(messages))
    return [result_of(message) for message in newest if message.role == "tool"][::-1]


def result_of(message: Message) -> ToolResult:
    """Return the result in a tool message. If the dialect does not state whether the tool failed, `success` is None."""
    failed = message.extra.get("is_error")
    if failed is True:
        return ToolResult(message.call_id or "", name=message.name, success=False, error=_error_text(message.content))
    success = True if failed is False else None
    return ToolResult(message.call_id or "", name=message.name, success=success, result=message.content)


def _error_text(content: Payload) -> str:
    """Return the content of an error as text.

    Text parts are joined by line breaks, and any other content becomes JSON.
    """
    parts = content if isinstance(content, list) else [content]
    texts = [text for text in map(_text_of_part, parts) if text is not None]
    if len(texts) == len(parts):
        return "\n".join(texts)
    if content is None:
        return ""
    return json.dumps(content, ensure_ascii=False)


def _text_of_part(part: Payload) -> str | None:
    text = part
    if isinstance(part, dict):
        text = part.get("text")
    if isinstance(text, str):
        return text
    return None


PREAMBLE = -1
"""A number that no item has.

As the first element of a history, it stands for the messages before the history, such as a system prompt.
"""
MAX_PROMPTS = 64
"""At most this many prompts are remembered. A request is compared with each of these prompts.

Several prompts are needed, because several agents may take turns.
"""
MIN_ELEMENTS = 16
"""A prompt with fewer elements than this is remembered only for the next request.

To read a short prompt again costs no more than to find it.
"""
_Group: TypeAlias = "tuple[int, list[Message]]"
Key = TypeVar("Key", int, tuple[int, ...])


class IncrementalReading(Struct, frozen=True, gc=False):
    """A request that was read together with earlier requests.

    `offer` is the request without its messages. The first `count` elements of `numbers` are the numbers of the
    request's messages in `table`. `results` are the tool results after the model's last message. `made_up` is how many
    tool calls in the request have made-up ids.
    """

    offer: RequestReading
    table: MessageTable
    numbers: Numbers | tuple[int, ...]
    count: int
    results: tuple[ToolResult, ...]
    made_up: int

    @property
    def messages(self) -> NumberedMessages:
        """The messages of the request."""
        numbers = array("q", self.numbers) if isinstance(self.numbers, tuple) else self.numbers
        return NumberedMessages(self.table, numbers, 0, self.count)

    def put_away(self) -> IncrementalReading:
        """Return this reading without tool results.

        A short prompt gets a tuple of numbers, which the garbage collector skips.
        """
        is_short = self.count <= MIN_ELEMENTS
        return replace(self, results=(), numbers=(*self.numbers[: self.count],) if is_short else self.numbers)


class Elements(Protocol):
    """The elements of histories, by their numbers."""

    def element(self, number: int) -> Payload:
        """Return an element. Raises KeyError if there is no such element."""


class ElementReadings:
    """Reads the messages of single elements of message histories, for requests of one dialect.

    An element is given by its number. The messages of the newest `max_kept` elements stay in memory. The messages
    of older elements are read again when needed.
    """

    def __init__(
        self,
        items: Elements,
        table: MessageTable,
        read: Callable[[Payload], list[Message]],
        merge_rule: MergeRule | None,
        *,
        makes_up_ids: bool,
        max_kept: float = math.inf,
    ) -> None:
        self.makes_up_ids = makes_up_ids
        self._items = items
        self._table = table
        self._read_element = read
        self._max_kept = max_kept
        self._readings: dict[int, list[Message]] = {}
        self._merged: dict[tuple[int, ...], list[Message]] = {}
        self.merge_rule = merge_rule
        self._read_again = partial(_read_again, read, items)

    def read(self, number: int) -> list[Message]:
        """Return the messages of an element. Other callers get the same list: do not change it."""
        messages = self._readings.get(number)
        if messages is None:
            messages = self._readings[number] = self._read_element(self._items.element(number))
            if len(self._readings) > self._max_kept:
                self._put_away(self._readings, self._read_again)
        return messages

    def refresh(self, number: int) -> None:
        """Read an element again, of which more is known now. Each of its messages keeps its number in the table.

        The element must not be merged with others, and must not be put away.
        """
        messages = self._readings.get(number, [])
        known = self._read_element(self._items.element(number))
        for before, after in zip(messages, known, strict=False):
            self._table.replace(before, after)
        self._readings[number] = known

    def groups(self, elements: Numbers) -> Iterable[_Group]:
        """Yield groups of elements that are read together: how many elements a group has, and the group's messages."""
        if self.merge_rule is None:
            return zip(repeat(1), map(self.read, elements))
        rule = MergeRule(self.merge_rule.continues, partial(self._merge, self.merge_rule))
        return ((group.size, group.messages) for group in read_groups(elements, self.read, rule))

    def _merge(self, rule: MergeRule, elements: Sequence[int], messages: Sequence[Message]) -> Message:
        key = tuple(elements)
        merged = self._merged.get(key)
        if merged is None:
            merged = self._merged[key] = [rule.merge([*map(self._items.element, key)], messages)]
            if len(self._merged) > self._max_kept:
                self._put_away(self._merged, partial(_merge_again, self._read_element, self._items, rule))
        return merged[0]

    def _put_away(self, kept: dict[Key, list[Message]], again: Callable[[Key], list[Message]]) -> None:
        """Drop the messages of the element that was read first. The table calls `again` if it needs these messages.

        `again` must not refer to this object: the table keeps `again`, and the garbage collector could not free the
        cycle.
        """
        key = next(iter(kept))
        for place, message in enumerate(kept.pop(key)):
            self._table.put_away(message, again, key, place)


def _read_again(read: Callable[[Payload], list[Message]], items: Elements, number: int) -> list[Message]:
    return read(items.element(number))


def _merge_again(
    read: Callable[[Payload], list[Message]], items: Elements, rule: MergeRule, numbers: Sequence[int]
) -> list[Message]:
    elements = [*map(items.element, numbers)]
    return [rule.merge(elements, [message for element in elements for message in read(element)])]


class TablePrompt(Struct, eq=False, gc=False):
    """The newest prompt of a conversation.

    `elements` are the elements of its history, `counts` is how many messages each element became, and `messages` are
    the numbers of these messages. If several elements became one message, the last of these elements has the count 1.
    The requests of a conversation share these arrays, which only grow. `results` are the tool results after the model's
    last message. `numbering` makes up ids if a tool call or a result had none. Requests with the same `key` differ only
    in their histories.
    """

    key: str
    offer: RequestReading
    elements: Numbers = field(default_factory=partial(array, "q"))
    counts: Numbers = field(default_factory=partial(array, "q"))
    messages: Numbers = field(default_factory=partial(array, "q"))
    results: list[ToolResult] = field(default_factory=list)
    numbering: CallNumbering | None = None
    made_up: int = 0

    def keep(self, other: TablePrompt, begin: int, end: int) -> None:
        """Append the elements of another prompt from `begin` to before `end`, with their messages."""
        first = sum(other.counts[:begin])
        self.elements += other.elements[begin:end]
        self.counts += other.counts[begin:end]
        self.messages += other.messages[first : first + sum(other.counts[begin:end])]


class TablePrompts:
    """Reads the requests of one run into its table of messages."""

    def __init__(self, table: MessageTable) -> None:
        self._table = table
        self._beginnings: dict[str, TablePrompt] = {}
        self._prompts: list[TablePrompt] = []
        """The newest prompt of each conversation. The newest of all comes first."""

    def read(
        self,
        key: str,
        elements: Numbers,
        readings: ElementReadings,
        begin: Callable[[], tuple[RequestReading, list[Message]]],
    ) -> IncrementalReading:
        """Read a request whose history has these elements. The first element is `PREAMBLE`.

        `begin` returns the request without its messages, and the messages before the history. Raises KeyError if a
        record that the request needs is missing.
        """
        prompt: TablePrompt | None
        for prompt in self._prompts:
            if prompt.key == key and elements[: len(prompt.elements)] == prompt.elements:
                break
        else:
            prompt = None
        if prompt is None or not self._extend(prompt, elements, readings):
            prompt = self._read_edited(key, elements, readings) if len(elements) >= MIN_ELEMENTS else None
            prompt = prompt or self._read_whole(key, elements, readings, begin)
        if not self._prompts or prompt is not self._prompts[0]:
            others = [other for other in self._prompts[1:] if other is not prompt]
            long = [newest for newest in self._prompts[:1] if len(newest.elements) >= MIN_ELEMENTS]
            self._prompts = [prompt, *long, *others][:MAX_PROMPTS]
        numbers, results = prompt.messages, tuple(prompt.results)
        return IncrementalReading(prompt.offer, self._table, numbers, len(numbers), results, prompt.made_up)

    def _read_whole(
        self,
        key: str,
        elements: Numbers,
        readings: ElementReadings,
        begin: Callable[[], tuple[RequestReading, list[Message]]],
    ) -> TablePrompt:
        """Read all elements of a request. Elements whose messages are in memory are not read again."""
        beginning = self._beginnings.get(key)
        if beginning is None:
            offer, messages = begin()
            beginning = TablePrompt(key, replace(offer, tools=self._table.tools(offer.tools)))
            beginning.elements.append(PREAMBLE)
            self._append(beginning, [(1, [*map(self._table.instruction, messages)])], readings)
            self._beginnings[key] = beginning
        lists = beginning.elements[:], beginning.counts[:], beginning.messages[:]
        prompt = TablePrompt(key, beginning.offer, *lists, made_up=beginning.made_up)
        self._extend(prompt, elements, readings)
        return prompt

    def _extend(self, prompt: TablePrompt, elements: Numbers, readings: ElementReadings) -> bool:
        """Append the elements that a prompt does not have yet.

        If the first new element merges with the prompt's last message, append nothing and return False.
        """
        new = elements[len(prompt.elements) :]
        if not new:
            return True
        if readings.merge_rule is not None and self._merges(prompt, new, readings):
            return False
        self._append(prompt, readings.groups(new), readings)
        prompt.elements += new
        return True

    def _merges(self, prompt: TablePrompt, new: Numbers, readings: ElementReadings) -> bool:
        """Return whether the first message of the new elements merges with the last message of the prompt."""
        read = readings.read
        before = next(filter(None, map(read, reversed(prompt.elements[1:]))), None)
        after = next(filter(None, map(read, new)), None)
        rule = readings.merge_rule
        return rule is not None and before is not None and after is not None and rule.continues(before[-1], after[0])

    def _append(self, prompt: TablePrompt, groups: Iterable[_Group], readings: ElementReadings) -> None:
        for size, messages in groups:
            prompt.counts.extend([*repeat(0, size - 1), len(messages)])
            for read in messages:
                message, is_result = read, read.role == "tool"
                if is_result or message.tool_calls or prompt.numbering is not None:
                    message = self._with_ids(prompt, message, readings)
                    prompt.made_up += count_made_up(message.tool_calls)
                if is_result:
                    prompt.results.append(result_of(message))
                elif message.role == "assistant":
                    prompt.results = []
                prompt.messages.append(self._table.number_of(message))

    def _with_ids(self, prompt: TablePrompt, message: Message, readings: ElementReadings) -> Message:
        """Return a message in which each tool call and each result has an id.

        Made-up ids are counted from the beginning of the prompt. The counting begins when the first id is missing.
        """
        if prompt.numbering is None:
            if not readings.makes_up_ids or not _lacks_id(message):
                return message
            prompt.numbering = CallNumbering()
            for number in prompt.messages:
                prompt.numbering.number(self._table.messages[number])
        return self._table.with_ids(message, prompt.numbering.number(message))

    # ── edited histories ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read_edited(self, key: str, elements: Numbers, readings: ElementReadings) -> TablePrompt | None:
        """Make a prompt of `elements`: copy ranges of an earlier prompt, and read only the other elements.

        The earlier prompt is the newest prompt with the same `key` that contains the middle element of `elements`. If a
        prompt is returned, the earlier prompt is no longer remembered.

        Return None if there is no such prompt, or if the earlier or the new prompt has made-up ids.
        """
        middle = elements[min((len(elements) + 1) // 2, len(elements) - 1)]
        for before in self._prompts:
            if before.key == key and middle in before.elements:
                break
        else:
            return None
        if before.numbering is not None or before.made_up:
            return None
        prompt, position = TablePrompt(key, before.offer), 0
        for edit in _edits(before, elements, merges=readings.merge_rule is not None):
            prompt.keep(before, position, edit.begin)
            new = elements[edit.first : edit.last]
            prompt.elements += new
            self._append(prompt, readings.groups(new), readings)
            position = edit.end
        if prompt.numbering is not None or prompt.made_up:
            return None
        prompt.keep(before, position, len(before.elements))
        prompt.results = newest_results(NumberedMessages(self._table, prompt.messages))
        self._prompts.remove(before)
        return prompt


class _Edit(NamedTuple):
    """An edit: elements `first:last` of a prompt replace elements `begin:end` of an earlier prompt."""

    begin: int
    end: int
    first: int
    last: int


def _edits(before: TablePrompt, elements: Numbers, *, merges: bool) -> list[_Edit]:
    """Return the edits that turn the elements of the earlier prompt `before` into `elements`.

    If `merges` is True, elements may merge into one message. Then an edit is widened by the message before it and the
    message after it.
    """
    edits: list[_Edit] = []
    moved = 0
    for change in changes_between(before.elements, elements):
        begin, end = change.position, change.position + change.removed
        first, last = begin + moved, begin + moved + len(change.inserted)
        moved = last - end
        if merges:
            wide = _begin_of_message(before.counts, begin), _end_of_message(before.counts, end)
            begin, first, end, last = wide[0], first - (begin - wide[0]), wide[1], last + (wide[1] - end)
        if edits and begin < edits[-1].end:
            begin, _, first, _ = edits.pop()
        edits.append(_Edit(begin, end, first, last))
    return edits


def _begin_of_message(counts: Numbers, position: int) -> int:
    """Return the position of the first element of the last message that ends before `position`, but at least 1."""
    last = position - 1
    while last > 0 and not counts[last]:
        last -= 1
    while last > 1 and not counts[last - 1]:
        last -= 1
    return max(1, min(last, position))


def _end_of_message(counts: Numbers, position: int) -> int:
    """Return the position after the last element of the message to which the element at `position` belongs.

    Return `len(counts)` if there is no such message.
    """
    while position < len(counts) and not counts[position]:
        position += 1
    return min(position + 1, len(counts))


def _lacks_id(message: Message) -> bool:
    return (message.role == "tool" and not message.call_id) or not all(call.call_id for call in message.tool_calls)
