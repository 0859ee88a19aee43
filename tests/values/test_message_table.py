"""Messages of a run have numbers: prompts are lists over a table, and equal messages have equal numbers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import Kept, kept_by
from trace_recorder.values.message_equality import json_key, says_key, shown_key
from trace_recorder.values.message_table import MAX_LISTS, EqualMessages, Key, MessageTable, SharedSequence
from trace_recorder.values.messages import Message, ToolCall
from trace_recorder.values.structs import replace

POOL = [Message("user", text) for text in "abcd"]
PLACES = st.lists(st.integers(0, 3), max_size=8)
BOUNDS = st.none() | st.integers(-10, 10)
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.none() | st.sampled_from([1, 2, -1, -3]))
PLAIN = Message("user", "say  it")
MARKED = Message("user", [{"type": "text", "text": "say  it", "cache_control": {"type": "ephemeral"}}])
SPACED = Message("user", "say it\n")
CALLS = Message("assistant", None, (ToolCall("c1", "bash", {"a": 1}),))
OWN_ID = replace(CALLS, tool_calls=(ToolCall("own", "bash", {"a": 1}),))


@given(st.text(st.sampled_from("ab é\u00e9 \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u2003\u3000\ud800\x00")))
def test_white_space_says_nothing(text: str) -> None:
    """A message says the same as its text without any white space, which need not be ASCII."""
    assert says_key(Message("user", text)) == says_key(Message("user", "".join(text.split())))
    assert says_key(Message("user", text)) != says_key(Message("user", f"{text}c"))


def of(places: Sequence[int]) -> list[Message]:
    return [POOL[place] for place in places]


@given(PLACES, SLICES, SLICES)
def test_a_prompt_behaves_like_the_list_of_its_messages(places: list[int], first: slice, second: slice) -> None:
    """A prompt has the same slices, order from both ends, and equality as the list of its messages."""
    expected = of(places)[first][second]
    found = MessageTable(POOL).prompt(of(places))[first][second]

    assert (found, [*reversed(found)], len(found)) == (expected, expected[::-1], len(expected))
    assert [found[place] for place in range(-len(expected), len(expected))] == expected * 2


@given(PLACES, PLACES, PLACES)
def test_extending_a_prompt_changes_no_other(begin: list[int], more: list[int], others: list[int]) -> None:
    """Two prompts that extend the same prompt do not change each other."""
    beginning = MessageTable().prompt(of(begin))
    first, second = beginning.extended(of(more)), beginning.extended(of(others))

    assert (beginning, first, second) == (of(begin), of(begin + more), of(begin + others))


@pytest.mark.parametrize(
    ("key", "numbers"),
    [(json_key, [0, 1, 2, 3, 4, 0]), (shown_key, [0, 0, 1, 2, 3, 0]), (says_key, [0, 0, 0, 1, 1, 0])],
    ids=["the same JSON", "shown", "says the same"],
)
def test_equal_messages_have_equal_numbers(key: Key, numbers: list[int]) -> None:
    """By either key, equal messages get equal numbers, whether they come from a message table or from a plain list."""
    messages = [PLAIN, MARKED, SPACED, CALLS, OWN_ID, replace(PLAIN)]
    equal = EqualMessages(key)

    found = [
        equal.numbers_of(given)
        for given in (MessageTable().prompt(messages), MessageTable(messages).prompt(messages), messages)
    ]
    assert [[*one] for one in found] == [numbers] * 3


def test_numbers_of_old_conversations_are_found_again() -> None:
    """A conversation that returns gets its earlier numbers, although only a limited number of lists is kept."""
    equal = EqualMessages(json_key)
    table = MessageTable(POOL)
    first = table.prompt(of([2, 0, 1]))
    before = [*equal.numbers_of(first)]

    def kept_after(lists: int) -> Kept:
        for _ in range(lists):
            equal.numbers_of(table.prompt(POOL))
        return kept_by(equal)

    assert kept_after(2 * MAX_LISTS) == kept_after(2 * MAX_LISTS)
    assert [*equal.numbers_of(first)] == before == [0, 1, 2]


def test_a_prompt_can_be_pickled() -> None:
    """The unpickled copy of a prompt has the same messages, and can be extended."""
    copy = pickle.loads(pickle.dumps(MessageTable().prompt(POOL)[1:3]))

    assert copy.extended([POOL[0]]) == [POOL[1], POOL[2], POOL[0]]


NUMBERS = st.lists(st.integers(0, 3), max_size=8)
BOUNDS = st.none() | st.integers(-10, 10)
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.none() | st.sampled_from([1, 2, -1, -3]))


@given(NUMBERS, SLICES, SLICES)
def test_a_slice_has_the_elements_of_the_same_slice_of_a_list(numbers: list[int], first: slice, second: slice) -> None:
    """Slices of slices have the elements, length, and order from both ends of the same slices of a list."""
    expected = numbers[first][second]
    part = SharedSequence(numbers)[first][second]
    assert part == expected
    assert expected == part
    assert len(part) == len(expected)
    assert [*reversed(part)] == expected[::-1]
    assert [part[place] for place in range(-len(expected), len(expected))] == expected * 2
    assert repr(part) == repr(expected)


@given(NUMBERS, NUMBERS)
def test_sequences_are_equal_if_their_elements_are(one: list[int], other: list[int]) -> None:
    """A sequence equals a list or another sequence with equal elements, and nothing else."""
    assert (SharedSequence(one) == SharedSequence(other)) == (one == other)
    assert (SharedSequence(one) == other) == (one == other)
    assert SharedSequence(one) != tuple(one)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_extending_a_sequence_changes_no_other(begin: list[int], some: list[int], other: list[int]) -> None:
    """Two sequences that extend the same sequence do not change each other."""
    beginning = SharedSequence(list(begin))
    first, second = beginning.extended(some), beginning.extended(other)
    assert (beginning, first, second) == (begin, begin + some, begin + other)
    assert first + other == begin + some + other
    assert other + first == other + begin + some


@given(st.lists(st.tuples(st.integers(0, 3), PLACES), max_size=6))
def test_numbers_of_new_arrays_are_those_of_each_message(prompts: list[tuple[int, list[int]]]) -> None:
    """Whatever prompts came before, a prompt has the numbers that its messages have one by one."""
    tables = [MessageTable(POOL), MessageTable(POOL[::-1])]
    equal, slow = EqualMessages(json_key), EqualMessages(json_key)
    for table, places in prompts:
        prompt = tables[table % 2].prompt(of(places))
        assert [*equal.numbers_of(prompt)] == [slow.numbers_of([message])[0] for message in prompt]
