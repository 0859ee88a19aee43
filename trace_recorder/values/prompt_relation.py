"""The relation of a prompt to an earlier one. All code that shortens, compares or shows conversations asks here.

Prompts are lists of message numbers, and equal messages have equal numbers (`message_table.py`). A prompt

- `extends` an earlier one if it begins with all of it,
- `refers` to one if the request names it instead of repeating it,
- `edits` a history if the model's answers are still there, and other messages were shortened, replaced or removed,
- `rewrites` a history if answers are gone, as after compaction,
- `begins` otherwise. It may have messages in common with others, as independent calls with one system prompt have.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from trace_recorder.signal_handlers import ours
from trace_recorder.values.prompt_changes import Change, Numbers, Ranges, changes_between, equal_length

Name = TypeVar("Name")

Relation = Literal["begins", "extends", "refers", "edits", "rewrites"]

MAX_SEARCHES = 16
"""In how many places the end of a list is searched for, if its first number is repeated."""
MAX_EARLIER_PROMPTS = 8
"""How many earlier prompts of its agent a prompt is compared with."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A prompt compared with an earlier one.

    `kept` messages are in both, if only at another place. The others of the prompt are at the positions `new`, those of
    the earlier one have the numbers `gone`. `changes` make the prompt of the earlier one. The prompt `extends` that
    one if it begins with all of it.
    """

    changes: Sequence[Change]
    kept: int
    new: Sequence[int]
    gone: Sequence[int] = ()
    extends: bool = False


def compare(earlier: Numbers, prompt: Numbers) -> Comparison:
    """Compare a prompt with an earlier one."""
    changes = changes_between(earlier, prompt)
    if all(change.position == len(earlier) for change in changes):
        return Comparison(changes, len(earlier), range(len(earlier), len(prompt)), extends=True)
    gone = Counter(n for change in changes for n in earlier[change.position : change.position + change.removed])
    new, moved = [], 0
    for change in changes:
        for place, number in enumerate(change.inserted, change.position + moved):
            if gone[number]:
                gone[number] -= 1
            else:
                new.append(place)
        moved += len(change.inserted) - change.removed
    return Comparison(changes, len(prompt) - len(new), new, [*gone.elements()])


class EarlierPrompts(Generic[Name]):
    """The newest prompts of an agent, by their names."""

    def __init__(self, limit: int = MAX_EARLIER_PROMPTS) -> None:
        self._prompts: deque[tuple[Name, Numbers]] = deque(maxlen=limit)

    def add(self, name: Name, numbers: Numbers) -> None:
        """Remember a prompt."""
        self._prompts.append((name, numbers))

    def extended_by(self, numbers: Numbers, at_least: int) -> tuple[Name, Comparison] | None:
        """Return the longest earlier prompt that a prompt begins with; None if it has fewer than `at_least` messages.

        If several are equal, it is the newest.
        """
        prompts = ((name, prompt) for name, prompt in reversed(self._prompts) if len(prompt) >= at_least)
        begins = [(name, prompt) for name, prompt in prompts if _begins(numbers, prompt)]
        name, earlier = max(begins, key=lambda named: len(named[1]), default=(None, numbers))
        return None if name is None else (name, compare(earlier, numbers))

    def most_similar(self, numbers: Numbers) -> tuple[Name, Comparison] | None:
        """Return the earlier prompt that has most messages in common with a prompt; None if it has none in common.

        If several are equal, it is the same prompt, or else the newest. A prompt that is too short to have more in
        common is not compared.
        """
        if len(numbers) and any(earlier == numbers for _, earlier in self._prompts):
            return self.extended_by(numbers, len(numbers))
        best: tuple[Name, Comparison] | None = None
        kept = 0
        for name, earlier in reversed(self._prompts):
            if min(len(numbers), len(earlier)) > kept:
                found = compare(earlier, numbers)
                if found.kept > kept:
                    best, kept = (name, found), found.kept
        return best


def _begins(numbers: Numbers, earlier: Numbers) -> bool:
    return numbers[: len(earlier)] == earlier


class EarlierLists(Generic[Name]):
    """The newest lists of numbers, by their names. A list that is added again replaces the one with its name."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lists: dict[Name, Numbers] = {}

    def add(self, name: Name, numbers: Numbers) -> None:
        """Remember a list."""
        self._lists[name] = numbers
        if len(self._lists) > self._limit:
            del self._lists[next(iter(self._lists))]

    def longest_beginning(self, numbers: Numbers) -> tuple[Name | None, int]:
        """Return the list that has the longest beginning in common, and how long that is.

        If several are equal, it is the oldest.
        """
        longest: tuple[Name | None, int] = None, 0
        for name, earlier in reversed(self._lists.items()):
            if min(len(earlier), len(numbers)) >= max(longest[1], 1):  # a shorter list cannot have as much
                length = equal_length(earlier, 0, numbers, 0)
                longest = (name, length) if length >= max(longest[1], 1) else longest
        return longest

    def most_kept(self, numbers: Numbers) -> tuple[Name | None, Ranges]:
        """Return the list of which a list keeps most, and the ranges of positions that it keeps; of equals, the newest.

        A list keeps the beginning of an earlier one, and all of its end if only the part between them is gone.
        """
        most: tuple[Name | None, Ranges] = None, []
        count = 0
        for name, earlier in reversed(self._lists.items()):
            if min(len(earlier), len(numbers)) > count:
                kept = _kept(earlier, numbers)
                length = sum(last + 1 - first for first, last in kept)
                if length > count:
                    most, count = (name, kept), length
            if count == len(numbers):
                break
        return most


def _kept(earlier: Numbers, numbers: Numbers) -> Ranges:
    """Return the ranges of an earlier list with which a list begins."""
    same = equal_length(earlier, 0, numbers, 0)
    begin = [[0, same - 1]] if same else []
    at = same
    for _ in range(MAX_SEARCHES if same < min(len(earlier), len(numbers)) else 0):
        try:
            at = earlier.index(numbers[same], at)
        except ours(ValueError):
            break
        if earlier[at:] == numbers[same : same + len(earlier) - at]:
            return [*begin, [at, len(earlier) - 1]]
        at += 1
    return begin
