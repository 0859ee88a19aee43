"""A comparison of prompts counts the messages that are kept, new and gone."""

from __future__ import annotations

from array import array
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.values.prompt_relation import EarlierLists, compare

NUMBERS = st.lists(st.integers(0, 6), max_size=14)


@given(NUMBERS, NUMBERS)
def test_messages_are_counted_at_any_place(old: list[int], new: list[int]) -> None:
    """Messages that only moved are neither new nor gone. A prompt extends one that it begins with."""
    comparison = compare(array("q", old), array("q", new))

    assert comparison.kept == (Counter(old) & Counter(new)).total()
    assert Counter(new[place] for place in comparison.new) == Counter(new) - Counter(old)
    assert Counter(comparison.gone) == Counter(old) - Counter(new)
    assert comparison.extends == (new[: len(old)] == old)


def test_the_oldest_list_with_the_longest_beginning_is_found() -> None:
    """Only the newest lists are searched. A list that is added again replaces the one of its name."""
    lists: EarlierLists[str] = EarlierLists(2)
    for name, numbers in [("gone", [1, 2, 3]), ("a", [9]), ("a", [1, 2]), ("b", [1, 2, 4])]:
        lists.add(name, array("q", numbers))

    assert lists.longest_beginning(array("q", [1, 2, 3])) == ("a", 2)
    assert lists.longest_beginning(array("q", [5])) == (None, 0)
