"""Lists of numbers as ranges: the same ranges as without memory, and work only for what is new in a list."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from tests.counting import arguments_of
from trace_recorder.values.number_ranges import RangeDivider
from trace_recorder.values.prompt_comparison import range_begins, ranges_of


@given(st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=6))
def test_the_lists_before_change_nothing(lists: list[list[int]]) -> None:
    """A list has the same ranges after any other lists."""
    ranges = RangeDivider()
    assert [ranges.of(array("q", numbers)) for numbers in lists] == [ranges_of(numbers) for numbers in lists]


def test_only_the_end_of_a_growing_list_is_divided() -> None:
    ranges = RangeDivider()
    lists = [array("q", range(0, 3 * length, 3)) for length in range(100)]

    divided = arguments_of(lambda: [*map(ranges.of, lists)], range_begins, lambda arguments: len(arguments["numbers"]))

    assert max(divided) <= 2


def test_nothing_behind_a_replaced_number_is_divided() -> None:
    """Each list has another number replaced, and a number more at its end."""
    ranges = RangeDivider()
    numbers = array("q", range(0, 300, 3))
    lists = []
    for place in range(40, 60):
        numbers = numbers[:]
        numbers[place] = 1000 + 3 * place
        numbers.append(numbers[-1] + 3)
        lists.append(numbers)
    ranges.of(array("q", range(0, 300, 3)))

    divided = arguments_of(lambda: [*map(ranges.of, lists)], range_begins, lambda arguments: len(arguments["numbers"]))

    assert max(divided) <= 3
