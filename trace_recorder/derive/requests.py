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

from trace_recorder.dialects.call_ids import Numbering
from trace_recorder.dialects.readers import ElementReader, element_reader_of, joiner_of
from trace_recorder.dialects.split_messages import Group, Joiner, in_groups
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Message, Payload, RequestReading, ToolResult

LANES = 64
"""How many conversations are remembered; agents that take turns need one each."""
WORTH = 1024
"""One of fewer bytes is remembered for the next request alone: reading it costs no more than looking for it."""
LONGEST_LANE = 16 * 1024 * 1024
LANE_BYTES = 8 * 1024 * 1024
"""Of how many bytes the messages of the newest are, and those of the others together, at most."""
_BEFORE = -1
"""The number of what stands before the growing list, such as a system prompt."""

_TRIES = 16
"""At how many places the end of a list is looked for, where its first element is repeated."""

_BETWEEN = b", "

Render = Callable[[Message], bytes]
Ranges = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Known:
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
            parts[first] = parts[first].removeprefix(_BETWEEN)
        return parts


def result_of(message: Message) -> ToolResult:
    """A tool message as a result. Only some dialects say that a tool failed; where none does, that is unknown."""
    failed = message.extra.get("is_error")
    if failed is True:
        return ToolResult(message.call_id or "", message.name, success=False, error=_said(message.content))
    success = True if failed is False else None
    return ToolResult(message.call_id or "", message.name, success=success, result=message.content)


def _said(content: Payload) -> str:
    """An error as text: of parts that are texts, each on a line of its own; anything else as JSON."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    said = [text for text in texts if isinstance(text, str)]
    if len(said) == len(texts):
        return "\n".join(said)
    return "" if content is None else json.dumps(content, ensure_ascii=False)


class Readings:
    """Reads the requests of one run; `render` writes a message."""

    def __init__(self, items: ItemTable, render: Render) -> None:
        self._items = items
        self._render = render
        self._lanes: list[_Lane] = []

    def read(self, identity: str, begin: Mapping[str, Payload]) -> Known | None:
        """What is known of a request, from the data of its record; None where it has to be read as a whole.

        Raises KeyError where a record that it needs is missing.
        """
        parts = begin.get("items", {})
        reader, growing = element_reader_of(begin.get("api")) or (None, "")
        if reader is None or not isinstance(parts.get(growing), list | dict):
            return None
        numbers = array("q", (_BEFORE, *self._items.numbers(growing, parts[growing])))
        others = {name: part for name, part in parts.items() if name != growing}
        key = _dump([begin["api"], begin["body"], others])
        same = [lane for lane in self._lanes if lane.key == key]
        lane = _continued(same, numbers) or (same[0].anew() if same else None)
        self._lanes = [other for other in self._lanes if other is not lane]  # what fails leaves none half continued
        if lane is None:
            base = reader.read_request(self._items.expand({"body": begin["body"], "items": others}) | {growing: []})
            lane = _Lane(key, replace(base, messages=[]), joiner_of(begin["api"]))
            lane.take([_BEFORE], Group(1, base.messages), self._render)
        if not self._take(lane, reader, numbers):
            lane = lane.anew()
            self._take(lane, reader, numbers)
        self._lanes = _newest([lane, *self._lanes])
        return lane.known(identity)

    def _take(self, lane: _Lane, reader: ElementReader, numbers: array[int]) -> bool:
        """Have a lane take the elements that it has not yet; False where they are one with those that it has."""
        new = numbers[len(lane.numbers) :]
        has_begun, place = False, 0
        for group in in_groups(map(self._items.element, new), reader.read_message, lane.joiner):
            if not has_begun and lane.is_one_with(group):
                return False
            has_begun = has_begun or bool(group.messages)  # null is an element without a message
            lane.take(new[place : place + group.size], group, self._render)
            place += group.size
        return True

    def forget(self, identity: str) -> None:
        """Write nothing against an interaction."""
        self._lanes = [lane for lane in self._lanes if lane.owner != identity]


def _continued(lanes: list[_Lane], numbers: array[int]) -> _Lane | None:
    """The lane that a list continues, or else one made of what it shares with another."""
    for lane in lanes:
        if numbers[: len(lane.numbers)] == lane.numbers:
            lane.begin(lane.all_messages())
            return lane
    for lane in lanes:
        positions = lane.positions(numbers)
        if positions:
            return lane.window(positions)
    return None


def _newest(lanes: list[_Lane]) -> list[_Lane]:
    """The lanes to remember, the newest first, without small ones, and without the oldest ones beyond the limits."""
    others = [lane for lane in lanes[1:] if lane.size >= WORTH][: LANES - 1]
    while sum(map(_size_of, others)) > LANE_BYTES:
        others.pop()
    return [*(lane for lane in lanes[:1] if lane.size <= LONGEST_LANE), *others]


_size_of = attrgetter("size")
_dump = make_json_writer(",", ":")


class _Lane:
    """A conversation as far as it has been read. Its texts only ever grow: all its requests begin with the same."""

    def __init__(self, key: str, offer: RequestReading, joiner: Joiner | None) -> None:
        self.key = key
        self.numbers = array("q")
        self.owner: str | None = None
        self.size = 0
        self.joiner = joiner
        self._offer = offer
        self._last: Message | None = None
        self._texts: list[bytes] = []
        self._ends = array("q", [0])
        self._results: list[ToolResult] = []
        self._spoke = _BEFORE
        self._numbering = Numbering()
        self._since: str | None = None
        self._kept: Ranges = ()
        self._new = 0
        self._next: tuple[Ranges, int] = (), 0

    def take(self, numbers: Sequence[int], group: Group, render: Render) -> None:
        """Take the messages of elements that were read together: they stand with the last of these."""
        for number in numbers[:-1]:
            self._put(number, b"", 0)
        taken = [self._numbering.number(message) for message in group.messages]
        for message in taken:
            if message.role == "assistant":
                self._results, self._spoke = [], len(self.numbers)
            elif message.role == "tool":
                self._results.append(result_of(message))
        self._last = group.last if taken else self._last
        self._put(numbers[-1], b"".join([_BETWEEN + render(message) for message in taken]), len(taken))

    def is_one_with(self, group: Group) -> bool:
        """Whether the first of these would be one message with the last that is here."""
        if self.joiner is None or self._last is None or group.first is None:
            return False
        return self.joiner.goes_on(self._last, group.first)

    def _put(self, number: int, text: bytes, messages: int) -> None:
        if not self._ends[-1]:
            text = text.removeprefix(_BETWEEN)  # here, so that what every request begins with is not copied for each
        self.numbers.append(number)
        self._texts.append(text)
        self._ends.append(self._ends[-1] + messages)
        self.size += len(text)

    def begin(self, kept: Ranges) -> None:
        """Begin another request, which keeps these messages of the last one."""
        self._next = kept, len(self.numbers)

    def known(self, identity: str) -> Known:
        """What is known of the request that ends here; one that is read again stands on the same as before."""
        if identity != self.owner:
            self._since, (self._kept, self._new), self.owner = self.owner, self._next, identity
        since = self._since if self._kept else None
        new = self._new if self._kept else 0
        results, made_up = tuple(self._results), self._numbering.made_up
        return Known(self._offer, self._texts, len(self._texts), since, self._kept, new, results, made_up)

    def positions(self, numbers: array[int]) -> list[int]:
        """Where the first elements of a list stand here: its beginning, and behind a hole all of the end.

        None do where what has been read depends on what stood before it, or where there is no such end. A list of which
        less than a half may stand here is not looked at.
        """
        if (
            self.joiner
            or self._numbering.made_up
            or numbers[min((len(numbers) + 1) // 2, len(numbers) - 1)] not in self.numbers
        ):
            return []
        pairs = zip(self.numbers, numbers, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(numbers))
        end = same
        for _ in range(_TRIES if same < len(numbers) else 0):
            try:
                end = self.numbers.index(numbers[same], end)
            except ValueError:
                break
            if self.numbers[end:] == numbers[same : same + len(self.numbers) - end]:
                return [*range(same), *range(end, len(self.numbers))] if self._has_results(same, end) else []
            end += 1
        return []

    def _has_results(self, same: int, end: int) -> bool:
        """Whether what tools brought back is the same without the elements between these positions."""
        return end <= self._spoke or (self._spoke < same and not self._results)

    def anew(self) -> _Lane:
        """A lane with nothing but what stands before the list."""
        lane = _Lane(self.key, self._offer, self.joiner)
        lane._put(_BEFORE, self._texts[0], self._ends[1])
        return lane

    def window(self, positions: list[int]) -> _Lane:
        """A lane that begins with the elements at these positions."""
        lane = _Lane(self.key, self._offer, self.joiner)
        for position in positions:
            messages = self._ends[position + 1] - self._ends[position]
            lane._put(self.numbers[position], self._texts[position], messages)
        if self._spoke in positions:
            lane._spoke = positions.index(self._spoke)
        lane._results, lane.owner = list(self._results), self.owner
        lane.begin(self.kept_of(positions))
        return lane

    def all_messages(self) -> Ranges:
        """The range of all its messages."""
        return ((0, self._ends[-1] - 1),) if self._ends[-1] else ()

    def kept_of(self, positions: Iterable[int]) -> Ranges:
        """The ranges of messages that elements stand for."""
        ranges: list[tuple[int, int]] = []
        for position in positions:
            first, last = self._ends[position], self._ends[position + 1] - 1
            if ranges and ranges[-1][1] == first - 1:
                ranges[-1] = ranges[-1][0], last
            elif first <= last:
                ranges.append((first, last))
        return tuple(ranges)
