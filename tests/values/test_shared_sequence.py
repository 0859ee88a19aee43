"""A shared sequence is a part of a list, which nobody can change through it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.values.message_table import SharedSequence

NUMBERS = st.lists(st.integers(0, 3), max_size=8)
BOUNDS = st.none() | st.integers(-10, 10)
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.none() | st.sampled_from([1, 2, -1, -3]))


@given(NUMBERS, SLICES, SLICES)
def test_a_slice_has_the_elements_of_the_same_slice_of_a_list(numbers: list[int], first: slice, second: slice) -> None:
    """Slices of slices equal those of lists: elements, length, and order from both ends."""
    expected = numbers[first][second]
    part = SharedSequence(numbers)[first][second]
    assert part == expected
    assert expected == part
    assert len(part) == len(expected)
    assert [*reversed(part)] == expected[::-1]
    assert [part[place] for place in range(-len(expected), len(expected))] == expected * 2
    assert repr(part) == repr(expected)


@given(NUMBERS, NUMBERS)
def test_two_are_equal_where_their_elements_are(one: list[int], other: list[int]) -> None:
    """The sequences compare like lists, with lists and with each other, and equal nothing else."""
    assert (SharedSequence(one) == SharedSequence(other)) == (one == other)
    assert (SharedSequence(one) == other) == (one == other)
    assert SharedSequence(one) != tuple(one)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_extending_one_changes_no_other(begin: list[int], some: list[int], other: list[int]) -> None:
    """Two continuations of the same beginning have nothing of each other."""
    beginning = SharedSequence(list(begin))
    first, second = beginning.extended(some), beginning.extended(other)
    assert (beginning, first, second) == (begin, begin + some, begin + other)
    assert first + other == begin + some + other
    assert other + first == other + begin + some
