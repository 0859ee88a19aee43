"""Compares two prompts. `reading/relations/prompt_relations.py` chooses the earlier prompt for all other code.

Prompts are lists of message numbers, and equal messages have equal numbers (`message_table.py`). The prompts of a
conversation share one array (`SharedNumbers`), so a prompt that only adds messages is compared at once. A prompt

- `extends` an earlier prompt if it begins with all messages of that prompt,
- `refers` to an earlier prompt if the request names the earlier response by its id and does not repeat the messages,
- `edits` an earlier prompt if all the model's answers are still there, but other messages were changed or removed,
- `rewrites` an earlier prompt if some of the model's answers are gone, as after compaction,
- `begins` a conversation otherwise. It may share messages with earlier prompts, such as one system prompt.

`changes_between` finds the numbers that were removed and inserted. Two prompts of a conversation have most numbers in
common, so whole slices of the arrays are compared first. At a difference, changes that remove and insert a few numbers
are tried first. So a new time in the system prompt, or one shortened result, costs little. If no small change fits, the
rest of both lists is aligned by a longest common subsequence.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, count, pairwise, repeat
from operator import ne, sub
from sys import byteorder
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from trace_recorder.values.structs import Struct

MAX_SMALL_CHANGE = 8
"""Changes that remove at most this many numbers, and insert at most as many, are tried before the rest is aligned."""

MAX_COMPARED = 4096
"""At most this many elements are copied to compare them. The copies then stay in the cache of the processor."""

Numbers: TypeAlias = "array[int]"
Ranges = list[list[int]]
Sliced = TypeVar("Sliced", "array[int]", str)


class Change(NamedTuple):  # a struct's members would count as words of the formats, which cannot be redacted
    """One change: a position in the old list, how many numbers are removed there, and the numbers inserted instead."""

    position: int
    removed: int
    inserted: Numbers


class SharedNumbers:
    """The numbers of an array from `start` to before `stop`.

    The prompts of a conversation share the array. The array may grow, but must not change otherwise.
    """

    __slots__ = ("array", "start", "stop")

    def __init__(self, numbers: Numbers, start: int = 0, stop: int | None = None) -> None:
        self.array = numbers
        self.start = start
        self.stop = len(numbers) if stop is None else stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, index: int) -> int:
        """Return a number. The index is not negative."""
        return self.array[self.start + index]

    def __iter__(self) -> Iterator[int]:
        return map(self.array.__getitem__, range(self.start, self.stop))

    def backwards(self, end: int | None = None) -> Iterator[int]:
        """Yield the numbers before the index `end`, from the last to the first."""
        stop = self.stop if end is None else self.start + end
        return map(self.array.__getitem__, range(stop - 1, self.start - 1, -1))

    def copy(self, begin: int = 0, end: int | None = None) -> Numbers:
        """Return a copy of the numbers from `begin` to before `end`."""
        return self.array[self.start + begin : self.stop if end is None else self.start + end]

    def first(self, count: int) -> SharedNumbers:
        """Return the first `count` numbers."""
        return SharedNumbers(self.array, self.start, self.start + count)

    def continued(self, count: int, others: Numbers) -> SharedNumbers:
        """Return the first `count` numbers followed by `others`.

        If the array ends after the first `count` numbers, it is extended. Otherwise these numbers are copied.
        """
        if self.start + count == len(self.array):
            self.array.extend(others)
            return SharedNumbers(self.array, self.start)
        return SharedNumbers(self.copy(0, count) + others)

    def shares_beginning(self, other: SharedNumbers) -> bool:
        """Whether both begin at the same place of one array, and so are equal up to the end of the shorter one."""
        return self.array is other.array and self.start == other.start

    def is_aligned(self, other: SharedNumbers, index: int) -> bool:
        """Whether both share their beginning, or have the same number at an index, which is not negative."""
        if self.array is other.array and self.start == other.start:
            return True
        place, other_place = self.start + index, other.start + index
        return place < self.stop and other_place < other.stop and self.array[place] == other.array[other_place]

    def may_contain(self, number: int) -> bool:
        """Whether the bytes of a number are in the array. This is much faster than to compare numbers."""
        return number.to_bytes(self.array.itemsize, byteorder) in self.array.tobytes()

    def extends(self, earlier: SharedNumbers) -> bool:
        """Whether these numbers begin with all numbers of `earlier`."""
        length = earlier.stop - earlier.start
        end = self.start + length
        if end > self.stop:
            return False
        if length and self.array[end - 1] != earlier.array[earlier.stop - 1]:
            return False
        return self.shares_beginning(earlier) or equal_length(self.whole(), 0, earlier.whole(), 0) >= length

    def changes_from(self, earlier: SharedNumbers) -> list[Change]:
        """Return the changes that turn the numbers `earlier` into these numbers, in the order of their positions."""
        if not self.shares_beginning(earlier):
            return changes_between(earlier.whole(), self.whole())
        same = min(self.stop, earlier.stop)
        if self.stop == earlier.stop:
            return []
        return [Change(same - self.start, earlier.stop - same, self.array[same : self.stop])]

    def whole(self) -> Numbers:
        """Return the numbers as an array, which must not be changed. It is the shared array if that has no others."""
        if self.start == 0 and self.stop == len(self.array):
            return self.array
        return self.copy()


def changes_between(old: Numbers, new: Numbers) -> list[Change]:
    """Return the changes that turn the old list into the new one, in the order of their positions."""
    changes, at_old, at_new = _first_changes(old, new)
    if at_old < len(old) and at_new < len(new):
        changes += _aligned_changes(old, at_old, new, at_new)
    elif at_old < len(old) or at_new < len(new):
        changes.append(Change(at_old, len(old) - at_old, new[at_new:]))
    return _join_neighbours(changes)


def _first_changes(old: Numbers, new: Numbers) -> tuple[list[Change], int, int]:
    """Return the small changes at the beginning of two lists, and the position in each list up to which they reach."""
    changes: list[Change] = []
    at_old = at_new = 0
    while True:
        same = equal_length(old, at_old, new, at_new)
        at_old, at_new = at_old + same, at_new + same
        if at_old == len(old) or at_new == len(new):
            break
        step = _small_change(old, at_old, new, at_new)
        if step is None:
            break
        changes.append(Change(at_old, step[0], new[at_new : at_new + step[1]]))
        at_old, at_new = at_old + step[0], at_new + step[1]
    return changes, at_old, at_new


def replace_kept(old: Numbers, values: Numbers, new: Numbers, value_of: Callable[[Numbers], Iterable[int]]) -> Numbers:
    """Return the value of each number of the new list.

    `values` has the values of the old list's numbers. They are copied for numbers that small changes keep. `value_of`
    returns the values of all other numbers.
    """
    changes, at_old, at_new = _first_changes(old, new)
    replaced = array("q")
    begin = 0
    for change in changes:
        replaced += values[begin : change.position]
        replaced.extend(value_of(change.inserted))
        begin = change.position + change.removed
    replaced += values[begin:at_old]
    replaced.extend(value_of(new[at_new:]))
    return replaced


def equal_length(old: Sliced, at_old: int, new: Sliced, at_new: int) -> int:
    """Return how many elements are equal in both lists, from `at_old` and `at_new` on to the first difference.

    Two texts are compared character by character.
    """
    length = min(len(old) - at_old, len(new) - at_new)
    if length <= 0 or old[at_old] != new[at_new]:
        return 0
    done, size = 0, 16
    while done < length and old[at_old + done : at_old + done + size] == new[at_new + done : at_new + done + size]:
        done, size = done + size, min(size * 2, MAX_COMPARED)
    while done < length and (size := size // 2):
        if old[at_old + done : at_old + done + size] == new[at_new + done : at_new + done + size]:
            done += size
    return min(done, length)


def _small_change(old: Numbers, at_old: int, new: Numbers, at_new: int) -> tuple[int, int] | None:
    """Return how many numbers to skip in each list, so that the next two numbers are equal in both.

    Return None if more than `MAX_SMALL_CHANGE` numbers of a list would have to be skipped.
    """
    for removed, inserted in _SMALL_CHANGES:
        in_old, in_new = at_old + removed, at_new + inserted
        # Behind the end of both lists, the slices are empty and equal, but no numbers follow there.
        if in_old < len(old) and old[in_old : in_old + 2] == new[in_new : in_new + 2]:
            return removed, inserted
    return None


_SMALL_CHANGES = sorted(
    ((removed, inserted) for removed in range(MAX_SMALL_CHANGE + 1) for inserted in range(MAX_SMALL_CHANGE + 1)),
    key=lambda change: (sum(change), abs(change[0] - change[1])),
)[1:]
"""How many numbers to remove and to insert, in the order to try: small sums first.

If two sums are equal, the change with the smaller difference between removed and inserted numbers comes first.
"""


def _aligned_changes(old: Numbers, at_old: int, new: Numbers, at_new: int) -> Iterator[Change]:
    """Yield the changes from two positions on.

    The numbers that no change touches are the common subsequence that `_common_positions` finds.
    """
    next_old, next_new = at_old, at_new
    for kept_old, kept_new in [*_common_positions(old, at_old, new, at_new), (len(old), len(new))]:
        if kept_old > next_old or kept_new > next_new:
            yield Change(next_old, kept_old - next_old, new[next_new:kept_new])
        next_old, next_new = kept_old + 1, kept_new + 1


def _common_positions(old: Numbers, at_old: int, new: Numbers, at_new: int) -> list[tuple[int, int]]:
    """Return a longest common subsequence of both lists from these positions on, as pairs of an old and a new position.

    If the old list has a number several times, only the last of its positions is considered.
    """
    positions = {number: place for place, number in enumerate(old[at_old:], at_old)}
    ends: list[int] = []
    last: list[int] = []
    pairs: list[tuple[int, int, int]] = []  # a position in each list, and the index of the pair before
    for position, number in enumerate(new[at_new:], at_new):
        place = positions.get(number)
        if place is None:
            continue
        length = bisect_left(ends, place)
        if length == len(ends):
            ends.append(place)
            last.append(-1)
        pairs.append((place, position, last[length - 1] if length else -1))
        ends[length], last[length] = place, len(pairs) - 1
    common: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        place, position, index = pairs[index]
        common.append((place, position))
    return common[::-1]


def _join_neighbours(changes: Iterable[Change]) -> list[Change]:
    """Join neighbouring changes if the second begins where the first ends in the old list."""
    joined: list[Change] = []
    for change in changes:
        if joined and joined[-1].position + joined[-1].removed == change.position:
            before = joined.pop()
            change = Change(before.position, before.removed + change.removed, before.inserted + change.inserted)  # noqa: PLW2901 - the joined change
        joined.append(change)
    return joined


def ranges_of(numbers: Sequence[int]) -> Ranges:
    """Return numbers as inclusive ranges, in their order: 3, 4, 5, 9 become [[3, 5], [9, 9]]."""
    return [[numbers[begin], numbers[end - 1]] for begin, end in pairwise([*range_begins(numbers), len(numbers)])]


def range_begins(numbers: Sequence[int]) -> Iterator[int]:
    """Yield the position of the first number of each range.

    No line of Python runs for a number that continues a range, because lists are long.
    """
    steps = map(sub, numbers[1:], numbers)
    return chain(range(min(1, len(numbers))), compress(count(1), map(ne, steps, repeat(1))))


Name = TypeVar("Name")

Relation = Literal["begins", "extends", "refers", "edits", "rewrites"]

MAX_EARLIER_PROMPTS = 8
"""A prompt is compared with at most this many earlier prompts of its agent, the newest ones."""


class Comparison(Struct, frozen=True, gc=False):
    """The result of comparing a prompt with an earlier prompt.

    - `changes`: the changes that turn the earlier prompt into the prompt
    - `kept`: how many messages of the prompt are also in the earlier prompt, at any position
    - `new`: the positions of all other messages of the prompt
    - `gone`: the numbers of the earlier prompt's messages that the prompt lacks
    - `extends`: whether the prompt begins with all messages of the earlier prompt
    """

    changes: Sequence[Change]
    kept: int
    new: Sequence[int]
    gone: Sequence[int] = ()
    extends: bool = False

    def inserted_places(self) -> Iterator[int]:
        """Yield the positions of the messages that changes inserted. Messages that only moved are among them."""
        return _inserted_places(self.changes)


def compare_prompts(earlier: SharedNumbers, prompt: SharedNumbers) -> Comparison:
    """Compare a prompt with an earlier prompt."""
    changes, length = prompt.changes_from(earlier), len(earlier)
    if not changes or changes[0].position == length:
        return Comparison(changes, length, range(length, len(prompt)), extends=True)
    gone = defaultdict[int, int](int)
    for change in changes:
        for number in earlier.copy(change.position, change.position + change.removed):
            gone[number] += 1
    new = []
    for place in _inserted_places(changes):
        if gone[prompt[place]]:
            gone[prompt[place]] -= 1
        else:
            new.append(place)
    return Comparison(changes, len(prompt) - len(new), new, [*chain.from_iterable(map(repeat, gone, gone.values()))])


def _inserted_places(changes: Iterable[Change]) -> Iterator[int]:
    moved = 0
    for change in changes:
        place = change.position + moved
        yield from range(place, place + len(change.inserted))
        moved += len(change.inserted) - change.removed


class EarlierPrompts(Generic[Name]):
    """The newest prompts of an agent, each under a name that the caller chooses. At most `limit` are remembered."""

    def __init__(self, limit: int = MAX_EARLIER_PROMPTS) -> None:
        self._prompts: deque[tuple[Name, SharedNumbers]] = deque(maxlen=limit)

    def add(self, name: Name, numbers: SharedNumbers) -> None:
        """Remember a prompt."""
        self._prompts.append((name, numbers))

    def extended_by(self, numbers: SharedNumbers, at_least: int) -> tuple[Name, Comparison] | None:
        """Return the name of the longest earlier prompt with which `numbers` begins, and the comparison with it.

        If several earlier prompts are equal, return the newest. Return None if `numbers` begins with no earlier prompt
        of `at_least` messages or more.
        """
        longest: tuple[Name, SharedNumbers] | None = None
        for name, prompt in reversed(self._prompts):
            length = prompt.stop - prompt.start
            if at_least <= length and numbers.extends(prompt):
                longest, at_least = (name, prompt), length + 1
        if longest is None:
            return None
        name, prompt = longest
        return name, compare_prompts(prompt, numbers)

    def most_similar(self, numbers: SharedNumbers) -> tuple[Name, Comparison] | None:
        """Return the name of the earlier prompt that shares most messages with `numbers`, and the comparison with it.

        If several prompts share the same number of messages, return one that equals `numbers`, or else the newest.
        Return None if no earlier prompt shares a message.
        """
        equal = self.extended_by(numbers, max(1, len(numbers)))
        if equal is not None:
            return equal
        best: tuple[Name, Comparison] | None = None
        kept = 0
        for name, earlier in reversed(self._prompts):
            if min(len(numbers), len(earlier)) > kept:  # a shorter prompt cannot share more
                comparison = compare_prompts(earlier, numbers)
                if comparison.kept > kept:
                    best, kept = (name, comparison), comparison.kept
        return best


class EarlierLists(Generic[Name]):
    """The lists of numbers that were added last, each under a name that the caller chooses.

    At most `limit` lists are remembered. A list replaces an earlier list of the same name.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lists: dict[Name, Numbers] = {}

    def add(self, name: Name, numbers: Numbers) -> None:
        """Remember a list. If too many lists are remembered, forget the list that was added longest ago."""
        self._lists.pop(name, None)
        self._lists[name] = numbers
        if len(self._lists) > self._limit:
            del self._lists[next(iter(self._lists))]

    def longest_beginning(self, numbers: Numbers) -> tuple[Name | None, int]:
        """Return the name of the list that shares the longest beginning with `numbers`, and that beginning's length.

        If several lists share a beginning of this length, return the name of the list that was added longest ago. If no
        list shares the first number, return None and 0.
        """
        longest: tuple[Name | None, int] = None, 0
        for name, earlier in reversed(self._lists.items()):
            if min(len(earlier), len(numbers)) >= max(longest[1], 1):  # a shorter list cannot share as much
                length = equal_length(earlier, 0, numbers, 0)
                if length >= max(longest[1], 1):
                    longest = name, length
        return longest

    def most_kept(self, numbers: Numbers) -> tuple[Name | None, KeptElements]:
        """Return the name of the earlier list of which `numbers` keeps most elements, and these elements.

        If `numbers` keeps equally many elements of several lists, return the list for which the fewest places are
        needed, and of those the list that was added last. If `numbers` keeps no element, return None.
        """
        best: tuple[Name | None, KeptElements] = None, KeptElements([], [], 0)
        most = least_places = 0
        for name, earlier in reversed(self._lists.items()):
            possible = min(len(earlier), len(numbers))  # a shorter list cannot keep more
            if possible > most or (possible == most and least_places):
                changes = changes_between(earlier, numbers)
                kept = KeptElements.of(earlier, numbers, changes)
                count = len(numbers) - sum(len(change.inserted) for change in changes)
                if count > most or (count == most and len(kept.places) < least_places):
                    best, most, least_places = (name, kept), count, len(kept.places)
        return best


class KeptElements(NamedTuple):
    """The elements of an earlier list that a list keeps, as inclusive ranges of positions in the earlier list.

    `places` are the positions of the list's other elements, up to the last kept one. All elements from the position
    `end` on are others too.
    """

    ranges: Ranges
    places: list[int]
    end: int

    @classmethod
    def of(cls, earlier: Numbers, numbers: Numbers, changes: Sequence[Change]) -> KeptElements:
        """Return what the changes keep that turn the list `earlier` into the list `numbers`."""
        ranges: Ranges = []
        begin = 0
        for change in (*changes, Change(len(earlier), 0, numbers[:0])):
            if change.position > begin:
                ranges.append([begin, change.position - 1])
            begin = change.position + change.removed
        places = [*_inserted_places(changes)]
        end = len(numbers)
        while places and places[-1] == end - 1:
            end = places.pop()
        return cls(ranges, places, end)
