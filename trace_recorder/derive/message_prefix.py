"""A conversation as far as its requests were read: what the next request of it need not read again.

A prefix has the numbers of the elements of a history, and the texts of their messages: the live document needs no more.
`table_prompts.py` has the same for a loaded run, whose messages are in a table.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import takewhile

from trace_recorder.dialects.call_ids import CallNumbering, count_made_up
from trace_recorder.dialects.split_messages import MergeRule, MessageGroup
from trace_recorder.signal_handlers import ours
from trace_recorder.values.message_table import NumberedMessages
from trace_recorder.values.messages import Message, Payload, RequestReading, ToolResult
from trace_recorder.values.structs import Struct

PREAMBLE = -1
"""The number of everything before the history, such as a system prompt."""

_MAX_SEARCHES = 16
"""In how many places the end of a history is searched for, if its first element is repeated."""
_SEPARATOR = b", "

Render = Callable[[Message], bytes]
Ranges = tuple[tuple[int, int], ...]


class IncrementalReading(Struct, frozen=True, gc=False):
    """A request that was read together with earlier ones.

    `offer` is all of it but its messages. These are in `messages`, or else only their texts are kept: the first `count`
    of `texts`, one text for each element of the history, with a comma before each message but the first. The messages
    before element `new` are those of interaction `since` at the positions `kept`, inclusive ranges. `results` are the
    tool results since the model last spoke, `made_up` is how many calls of the request have made-up ids. `identity` is
    the id of the interaction.
    """

    identity: str
    offer: RequestReading
    messages: NumberedMessages | None
    texts: Sequence[bytes]
    count: int
    since: str | None
    kept: Ranges
    new: int
    results: tuple[ToolResult, ...]
    made_up: int

    def rendered(self, start: int = 0) -> list[bytes]:
        """Return the texts of the elements from `start` on, with commas between the messages."""
        parts = list(self.texts[start : self.count])
        first = next((at for at, text in enumerate(parts) if text), None)
        if first is not None:
            parts[first] = parts[first].removeprefix(_SEPARATOR)
        return parts


def newest_results(messages: Sequence[Message]) -> list[ToolResult]:
    """Return the tool results of a request since the model last spoke; `MessagePrefix` gathers them as it reads."""
    newest = takewhile(lambda message: message.role != "assistant", reversed(messages))
    return [result_of(message) for message in newest if message.role == "tool"][::-1]


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


class MessagePrefix:
    """A conversation as far as it was read. Its lists only grow: all its requests share the beginning.

    `render` writes a message as JSON. `size` is how many bytes a prefix takes, roughly.
    """

    def __init__(
        self,
        key: str,
        offer: RequestReading,
        merge_rule: MergeRule | None,
        render: Render,
        *,
        numbered: bool,
    ) -> None:
        self.key = key
        self.numbers = array("q")
        self.interaction_id: str | None = None
        self.size = self._dropped_size = 0
        self.merge_rule = merge_rule
        self._offer = offer
        self._render = render
        self._numbered = numbered
        self._last_message: Message | None = None
        self._texts: list[bytes] = []
        self._without_text = 0
        self._ends = array("q", [0])
        self._results: list[ToolResult] = []
        self._last_assistant = PREAMBLE
        self._numbering = CallNumbering()
        self._made_up = 0
        self._since: str | None = None
        self._kept: Ranges = ()
        self._new = 0
        self._next_start: tuple[Ranges, int] = (), 0
        self._last_is_hidden = False

    def append(self, numbers: Sequence[int], group: MessageGroup) -> None:
        """Append the messages of elements that were read together. They are filed under the last of these elements."""
        for number in numbers[:-1]:
            self._append_element(number, b"", 0)
        self._last_message = group.last if group.messages else self._last_message
        self.append_element(numbers[-1], group.messages)

    def append_element(self, number: int, messages: list[Message]) -> None:
        """Append an element, and the messages that it reads as."""
        if self._numbered:
            messages = [self._numbering.number(message) for message in messages]
        for message in messages:
            if message.role == "assistant":
                self._results, self._last_assistant = [], len(self.numbers)
            elif message.role == "tool":
                self._results.append(result_of(message))
            if message.tool_calls:
                self._made_up += count_made_up(message.tool_calls)
        text = b"".join([_SEPARATOR + self._render(message) for message in messages])
        self._append_element(number, text, len(messages))

    def merges_with(self, group: MessageGroup) -> bool:
        """Whether the first message of a group would be one message with the last one here."""
        if self.merge_rule is None or self._last_message is None or group.first is None:
            return False
        return self.merge_rule.continues(self._last_message, group.first)

    def _append_element(self, number: int, text: bytes, messages: int) -> None:
        end = self._ends[-1]
        if not end:
            text = text.removeprefix(_SEPARATOR)  # removed once here, and not in each request
        self.numbers.append(number)
        self._texts.append(text)
        self._ends.append(end + messages)
        self.size += len(text)

    @property
    def read_size(self) -> int:
        """Its size if all texts had been kept."""
        return self.size + self._dropped_size

    def begin_request(self, kept: Ranges) -> None:
        """Begin another request, which keeps these messages of the last one."""
        self._next_start = (self._kept, self._new) if self._last_is_hidden else (kept, len(self.numbers))

    def hide_last(self) -> None:
        """Make the next request a delta to what the last one is a delta to: the last one is not shown."""
        self._last_is_hidden = True

    def without_texts(self) -> MessagePrefix:
        """Return the same prefix with the text of what comes before the history alone.

        Of a request that continues it, only what is new can be rendered.
        """
        prefix = copy(self)
        prefix._texts = [*self._texts[:1], *[b""] * (len(self._texts) - 1)]
        prefix._without_text, prefix.size = len(self._texts), len(self._texts[0])
        prefix._dropped_size = self.read_size - prefix.size
        return prefix

    def reading(self, interaction_id: str) -> IncrementalReading | None:
        """Return the reading of the request that ends here. Reading the same request again gives the same base.

        Return None if texts are needed that are not kept any more.
        """
        if interaction_id != self.interaction_id:
            self._since = self._since if self._last_is_hidden else self.interaction_id
            self._kept, self._new = self._next_start
            self.interaction_id, self._last_is_hidden = interaction_id, False
        since = self._since if self._kept and self._since != interaction_id else None
        new = self._new if self._kept else 0
        if self._without_text > (new if since else 0):
            return None
        return IncrementalReading(
            identity=interaction_id,
            offer=self._offer,
            messages=None,
            texts=self._texts,
            count=len(self._texts),
            since=since,
            kept=self._kept,
            new=new,
            results=tuple(self._results),
            made_up=self._made_up,
        )

    def matching_positions(self, numbers: array[int]) -> list[int]:
        """Return the positions of a history's first elements here: its beginning, and after a hole all of the end.

        Return none if the reading of an element depends on earlier ones, or if there is no such end. A history of which
        less than half can be here is not searched.
        """
        middle = numbers[min((len(numbers) + 1) // 2, len(numbers) - 1)]
        if self.merge_rule or self._made_up or middle not in self.numbers:
            return []
        if self._numbering.has_added_ids or self._numbering.has_open_calls:
            return []
        pairs = zip(self.numbers, numbers, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(numbers))
        end = same
        for _ in range(_MAX_SEARCHES if same < len(numbers) else 0):
            try:
                end = self.numbers.index(numbers[same], end)
            except ours(ValueError):
                break
            if self.numbers[end:] == numbers[same : same + len(self.numbers) - end]:
                return [*range(same), *range(end, len(self.numbers))] if self._keeps_results(same, end) else []
            end += 1
        return []

    def _keeps_results(self, same: int, end: int) -> bool:
        """Whether the newest tool results stay the same without the elements between two positions."""
        return end <= self._last_assistant or (self._last_assistant < same and not self._results)

    def sliced(self, positions: list[int]) -> MessagePrefix:
        """Return a prefix that begins with the elements at these positions."""
        prefix = self.copied(positions)
        if self._last_assistant in positions:
            prefix._last_assistant = positions.index(self._last_assistant)
        prefix._results, prefix.interaction_id = (
            list(self._results),
            None if self._last_is_hidden else self.interaction_id,
        )
        prefix.begin_request(self.ranges_of(positions))
        return prefix

    def copied(self, positions: Iterable[int] = (0,)) -> MessagePrefix:
        """Return a prefix with these elements, if not given with only what is before the history.

        It has nothing that depends on their order.
        """
        prefix = MessagePrefix(self.key, self._offer, self.merge_rule, self._render, numbered=self._numbered)
        for position in positions:
            first, end = self._ends[position], self._ends[position + 1]
            prefix._append_element(self.numbers[position], self._texts[position], end - first)
            if 0 < position < self._without_text:
                prefix._without_text = len(prefix.numbers)
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
