"""What a prompt has in common with an earlier one."""

from __future__ import annotations

from array import array
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.values.prompt_relation import EarlierLists, compare

NUMBERS = st.lists(st.integers(0, 6), max_size=14)


@given(NUMBERS, NUMBERS)
def test_what_is_kept_new_and_gone_is_counted_wherever_it_stands(old: list[int], new: list[int]) -> None:
    """Messages that only moved are neither new nor gone; a prompt extends one that it begins with."""
    found = compare(array("q", old), array("q", new))

    assert found.kept == (Counter(old) & Counter(new)).total()
    assert Counter(new[place] for place in found.new) == Counter(new) - Counter(old)
    assert Counter(found.gone) == Counter(old) - Counter(new)
    assert found.extends == (new[: len(old)] == old)


def test_the_oldest_list_with_the_longest_beginning_is_found() -> None:
    """Of the newest lists; one that is added again replaces the one of its name."""
    lists: EarlierLists[str] = EarlierLists(2)
    for name, numbers in [("gone", [1, 2, 3]), ("a", [9]), ("a", [1, 2]), ("b", [1, 2, 4])]:
        lists.add(name, array("q", numbers))

    assert lists.longest_beginning(array("q", [1, 2, 3])) == ("a", 2)
    assert lists.longest_beginning(array("q", [5])) == (None, 0)
