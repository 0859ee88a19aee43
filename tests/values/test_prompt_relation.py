"""A comparison of prompts counts the messages that are kept, new and gone."""

from __future__ import annotations

from array import array
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.values.prompt_relation import EarlierLists, EarlierPrompts, compare

NUMBERS = st.lists(st.integers(0, 6), max_size=14)


@given(NUMBERS, NUMBERS)
def test_messages_are_counted_at_any_place(old: list[int], new: list[int]) -> None:
    """Messages that only moved are neither new nor gone. A prompt extends one that it begins with."""
    comparison = compare(array("q", old), array("q", new))

    assert comparison.kept == (Counter(old) & Counter(new)).total()
    assert Counter(new[place] for place in comparison.new) == Counter(new) - Counter(old)
    assert Counter(comparison.gone) == Counter(old) - Counter(new)
    assert comparison.extends == (new[: len(old)] == old)


def test_the_most_similar_prompt_is_found() -> None:
    """The same prompt is found if it exists, or else the newest prompt with most messages in common."""
    prompts: EarlierPrompts[str] = EarlierPrompts(4)
    for name, numbers in [("gone", [1]), ("same", [1, 2]), ("other", [5, 6]), ("long", [1, 2, 3]), ("newest", [1, 4])]:
        prompts.add(name, array("q", numbers))

    lists = ([1, 2], [1], [3, 2], [6], [9], [])
    similar = [prompts.most_similar(array("q", numbers)) for numbers in lists]

    assert [found and found[0] for found in similar] == ["same", "newest", "long", "other", None, None]


def test_the_longest_prompt_that_is_extended_is_found() -> None:
    """The newer of two equal prompts is found, and no prompt that is shorter than the requested length."""
    prompts: EarlierPrompts[str] = EarlierPrompts()
    for name, numbers in [("short", [1]), ("old", [1, 2]), ("new", [1, 2]), ("other", [3])]:
        prompts.add(name, array("q", numbers))
    numbers = array("q", [1, 2, 3])

    assert prompts.extended_by(numbers, 1) == ("new", compare(array("q", [1, 2]), numbers))
    assert prompts.extended_by(numbers, 3) is None


def test_the_oldest_list_with_the_longest_beginning_is_found() -> None:
    """Only the newest lists are searched. A list that is added again replaces the one of its name."""
    lists: EarlierLists[str] = EarlierLists(2)
    for name, numbers in [("gone", [1, 2, 3]), ("a", [9]), ("a", [1, 2]), ("b", [1, 2, 4])]:
        lists.add(name, array("q", numbers))

    assert lists.longest_beginning(array("q", [1, 2, 3])) == ("a", 2)
    assert lists.longest_beginning(array("q", [5])) == (None, 0)
