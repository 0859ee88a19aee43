"""The difference between two prompts, as lists of message numbers."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.values.prompt_relation import applied, changes_between, ranges_of

LISTS = st.lists(st.integers(0, 30), max_size=60)


def changes(old: list[int], new: list[int]) -> list[tuple[int, int, list[int]]]:
    found = changes_between(array("q", old), array("q", new))
    return [(one.position, one.removed, [*one.inserted]) for one in found]


@given(LISTS, LISTS)
def test_changes_make_the_new_list_of_the_old_one(old: list[int], new: list[int]) -> None:
    """The changes between any two lists turn one into the other."""
    one, other = array("q", old), array("q", new)

    assert applied(one, changes_between(one, other)) == other


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 12), st.integers(0, 12)), max_size=5))
def test_a_few_changes_in_a_long_list_remove_little(edits: list[tuple[int, int, int]]) -> None:
    """Unchanged messages are recognised: only a single message between two changes may count as removed."""
    old, fresh = [*range(200)], iter(range(1000, 2000))
    new = [*old]
    for at, removed, inserted in edits:
        new[at : at + removed] = [next(fresh) for _ in range(inserted)]

    found = sum(removed for _, removed, _ in changes(old, new))
    assert len(set(old) - set(new)) <= found <= len(set(old) - set(new)) + len(edits)


def test_an_appended_message_is_one_change() -> None:
    """A conversation that grew has one change, at its end."""
    assert changes([*range(1000)], [*range(1002)]) == [(1000, 0, [1000, 1001])]


def test_a_clock_in_the_first_message_and_a_new_one_at_the_end() -> None:
    """A message that is replaced each time, and one that is added, are two changes."""
    assert changes([7, 1, 2, 3, 4], [8, 1, 2, 3, 4, 9]) == [(0, 1, [8]), (5, 0, [9])]


def test_what_moved_far_is_removed_and_inserted() -> None:
    """If two stretches change places, the longer one stays."""
    assert changes([*range(20), *range(100, 140)], [*range(100, 140), *range(20)]) == [
        (0, 20, []),
        (60, 0, [*range(20)]),
    ]


def test_ranges_include_both_ends() -> None:
    """Numbers that follow each other are one range."""
    assert ranges_of([3, 4, 5, 9, 8, 8]) == [[3, 5], [9, 9], [8, 8], [8, 8]]
