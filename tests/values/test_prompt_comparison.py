"""The comparison of two prompts: which messages are kept, new and gone."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from trace_recorder.values.prompt_comparison import (
    Change,
    EarlierLists,
    EarlierPrompts,
    Numbers,
    SharedNumbers,
    changes_between,
    compare_prompts,
    ranges_of,
)

NUMBERS = st.lists(st.integers(0, 6), max_size=14)


def shared(numbers: list[int]) -> SharedNumbers:
    """Return these numbers from the middle of an array."""
    return SharedNumbers(array("q", [7, *numbers, 8]), 1, 1 + len(numbers))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_shared_numbers_are_those_of_a_list(begin: list[int], some: list[int], other: list[int]) -> None:
    """Numbers that continue the same numbers do not change each other. They are compared as lists are."""
    beginning = SharedNumbers(array("q", begin))
    prompts = {
        (*begin, *some): beginning.continued(len(begin), array("q", some)),
        (*begin, *other): beginning.continued(len(begin), array("q", other)),
        (*begin[:2], *other): beginning.continued(len(begin[:2]), array("q", other)),
        (*begin,): beginning,
        (*other,): shared(other),
    }
    for expected, numbers in prompts.items():
        count = len(expected) // 2
        assert ((*numbers,), len(numbers), [*numbers.copy()]) == (expected, len(expected), [*expected])
        assert [*numbers.backwards(count)] == [*reversed(expected[:count])]
        assert [*numbers.first(count)] == [*expected[:count]]
        for earlier, before in prompts.items():
            assert numbers.extends(before) == (expected[: len(earlier)] == earlier)
            assert applied(array("q", earlier), numbers.changes_from(before)) == array("q", expected)
        assert all(map(numbers.may_contain, expected))


@given(NUMBERS, NUMBERS)
def test_messages_are_counted_at_any_place(old: list[int], new: list[int]) -> None:
    """A message that only moved is neither new nor gone, and a prompt that begins with an earlier prompt extends it."""
    comparison = compare_prompts(shared(old), shared(new))

    assert comparison.kept == (Counter(old) & Counter(new)).total()
    assert Counter(new[place] for place in comparison.new) == Counter(new) - Counter(old)
    assert Counter(comparison.gone) == Counter(old) - Counter(new)
    assert comparison.extends == (new[: len(old)] == old)


def test_the_most_similar_prompt_is_found() -> None:
    """The same prompt is found if there is one; otherwise the newest of the prompts with the most common messages."""
    prompts: EarlierPrompts[str] = EarlierPrompts(4)
    for name, numbers in [("gone", [1]), ("same", [1, 2]), ("other", [5, 6]), ("long", [1, 2, 3]), ("newest", [1, 4])]:
        prompts.add(name, shared(numbers))

    lists = ([1, 2], [1], [3, 2], [6], [9], [])
    similar = [prompts.most_similar(shared(numbers)) for numbers in lists]

    assert [found and found[0] for found in similar] == ["same", "newest", "long", "other", None, None]


def test_the_longest_extended_prompt_is_found() -> None:
    """The longest prompt that the new prompt extends is found. If two are equally long, the newest is found.

    A prompt below the requested length is not found.
    """
    prompts: EarlierPrompts[str] = EarlierPrompts()
    for name, numbers in [("short", [1]), ("old", [1, 2]), ("new", [1, 2]), ("other", [3])]:
        prompts.add(name, shared(numbers))
    numbers = shared([1, 2, 3])

    assert prompts.extended_by(numbers, 1) == ("new", compare_prompts(shared([1, 2]), numbers))
    assert prompts.extended_by(numbers, 3) is None


def test_the_oldest_list_with_the_longest_beginning_is_found() -> None:
    """Among the newest lists, the oldest one with the longest common beginning is found.

    A list that is added again replaces the list of its name.
    """
    lists: EarlierLists[str] = EarlierLists(2)
    for name, numbers in [("gone", [1, 2, 3]), ("a", [9]), ("a", [1, 2]), ("b", [1, 2, 4])]:
        lists.add(name, array("q", numbers))

    assert lists.longest_beginning(array("q", [1, 2, 3])) == ("a", 2)
    assert lists.longest_beginning(array("q", [5])) == (None, 0)


def test_a_list_that_is_added_again_is_the_newest() -> None:
    """If there are too many lists, the list that was added longest ago is forgotten."""
    lists: EarlierLists[str] = EarlierLists(2)
    for name, number in [("active", 1), ("idle", 2), ("active", 1), ("new", 3)]:
        lists.add(name, array("q", [number]))

    assert [lists.longest_beginning(array("q", [number])) for number in (1, 2, 3)] == [
        ("active", 1),
        (None, 0),
        ("new", 1),
    ]


LISTS = st.lists(st.integers(0, 30), max_size=60)


def applied(numbers: Numbers, changes: Sequence[Change]) -> Numbers:
    """Return a copy of a list with the changes applied."""
    result = numbers[:]
    for change in reversed(changes):
        result[change.position : change.position + change.removed] = change.inserted
    return result


def changes(old: list[int], new: list[int]) -> list[tuple[int, int, list[int]]]:
    edits = changes_between(array("q", old), array("q", new))
    return [(change.position, change.removed, [*change.inserted]) for change in edits]


@given(LISTS, LISTS)
def test_changes_turn_one_list_into_the_other(old: list[int], new: list[int]) -> None:
    """The changes between any two lists turn the first list into the second."""
    one, other = array("q", old), array("q", new)

    assert applied(one, changes_between(one, other)) == other


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 12), st.integers(0, 12)), max_size=5))
def test_a_few_changes_in_a_long_list_remove_little(edits: list[tuple[int, int, int]]) -> None:
    """A few changes in a long list remove at most one unchanged message between two changes."""
    old, fresh = [*range(200)], iter(range(1000, 2000))
    new = [*old]
    for at, removed, inserted in edits:
        new[at : at + removed] = [next(fresh) for _ in range(inserted)]

    removed_messages = sum(removed for _, removed, _ in changes(old, new))
    assert len(set(old) - set(new)) <= removed_messages <= len(set(old) - set(new)) + len(edits)


def test_an_appended_message_is_one_change() -> None:
    """A conversation that grew has one change, at its end."""
    assert changes([*range(1000)], [*range(1002)]) == [(1000, 0, [1000, 1001])]


def test_a_clock_in_the_first_message_and_an_appended_message_are_two_changes() -> None:
    """A first message that differs each time, such as by a clock, and an appended message are two changes."""
    assert changes([7, 1, 2, 3, 4], [8, 1, 2, 3, 4, 9]) == [(0, 1, [8]), (5, 0, [9])]


def test_two_changes_with_two_messages_between_them_stay_apart() -> None:
    """Two changes with two unchanged messages between them are not joined."""
    assert changes([1, 2, 3, 4, 5, 6, 7], [8, 2, 3, 9, 5, 6, 7]) == [(0, 1, [8]), (3, 1, [9])]


def test_one_message_inserted_or_removed_is_one_change() -> None:
    """An inserted or removed message is one change, even if a message around it occurs twice."""
    assert changes([1, 2, 3], [9, 1, 2, 3]) == [(0, 0, [9])]
    assert changes([9, 1, 2, 3], [1, 2, 3]) == [(0, 1, [])]
    assert changes([1, 9, 2, 3, 2, 4, 5], [1, 2, 4, 5]) == [(1, 3, [])]


def test_a_repeated_message_stays_behind_a_replaced_one() -> None:
    """If a message is replaced between two occurrences of another message, both occurrences stay."""
    assert changes([1, 5, 2, 5, 3], [9, 5, 2, 5, 3]) == [(0, 1, [9])]
    assert changes([1, 2, 9, 2, 9, 4], [9, 2, 9, 2, 9, 4]) == [(0, 1, [9])]


def test_if_the_last_two_messages_change_places_one_stays() -> None:
    """If the last two messages change places, one of them is kept."""
    assert changes([1, 2, 3], [1, 3, 2]) == [(1, 0, [3]), (2, 1, [])]


def test_a_stretch_that_moved_far_is_removed_and_inserted() -> None:
    """If two stretches of messages change places, the longer one is kept, and the other is removed and inserted."""
    assert changes([*range(20), *range(100, 140)], [*range(100, 140), *range(20)]) == [
        (0, 20, []),
        (60, 0, [*range(20)]),
    ]


def test_ranges_include_both_ends() -> None:
    """Consecutive numbers are one range."""
    assert ranges_of([3, 4, 5, 9, 8, 8]) == [[3, 5], [9, 9], [8, 8], [8, 8]]
