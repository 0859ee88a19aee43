"""Lists that are stored as ranges of an earlier list: how many ranges there are, and whether they give the list."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.items.store import Store
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.storage.items.item_lists import Base

Contents = list[str]
FILLER = "go on"


def growing_with_filler(number: int) -> Contents:
    return [text for at in range(number) for text in (f"turn {at}", FILLER)]


def first_message_changes(number: int) -> Contents:
    return [f"it is {number}", *growing_with_filler(number)]


def notes_are_inserted_in_front(number: int) -> Contents:
    return [*(f"note {at}" for at in range(number)), *growing_with_filler(number)]


def notes_are_inserted_behind_the_first(number: int) -> Contents:
    return [f"it is {number}", *(f"note {at}" for at in reversed(range(number))), *growing_with_filler(number)]


def oldest_are_removed(number: int) -> Contents:
    return ["task", *growing_with_filler(number)[number // 2 * 2 :]]


def window_slides(number: int) -> Contents:
    return ["task", *growing_with_filler(number)[-100:]]


HISTORIES = (
    growing_with_filler,
    first_message_changes,
    notes_are_inserted_in_front,
    notes_are_inserted_behind_the_first,
    oldest_are_removed,
    window_slides,
)


def ranges_of(history: Callable[[int], Contents], calls: int) -> int:
    """Return how many ranges the requests of a history take."""
    encoder, seq, count = ItemEncoder(), 0, 0
    for number in range(1, calls + 1):
        messages = [{"content": text} for text in history(number)]
        encoded = encoder.encode(json.dumps({"model": "m", "messages": messages}).encode())
        seq += len(encoded.new) + 1
        encoded.mark_written(seq)
        part = encoded.items["messages"]
        count += len(part if isinstance(part, list) else part["ranges"])
    return count


@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: one.__name__)
def test_the_number_of_ranges_does_not_grow_with_the_square_of_the_calls(history: Callable[[int], Contents]) -> None:
    """Four times as many calls take far fewer than sixteen times as many ranges, whatever changes at the beginning of
    the history.
    """
    assert ranges_of(history, 240) <= 9.5 * ranges_of(history, 60)


def changed_lists() -> Iterator[st.SearchStrategy[list[int]]]:
    yield st.lists(st.integers(0, 8), max_size=60)
    yield st.lists(st.integers(0, 60), max_size=60)


@given(base=st.one_of(*changed_lists()), numbers=st.one_of(*changed_lists()))
def test_ranges_lead_to_the_same_numbers(base: list[int], numbers: list[int]) -> None:
    """The ranges of a list, relative to any base list, give exactly the list's numbers."""
    ranges = Base(1, array("L", base)).ranges_of(array("L", numbers))

    found: list[int] = []
    for entry in ranges:
        first, last = entry["base"] if isinstance(entry, dict) else entry
        found += base[first : last + 1] if isinstance(entry, dict) else range(first, last + 1)
    assert found == numbers


@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: one.__name__)
def test_every_call_can_be_restored(history: Callable[[int], Contents]) -> None:
    """A list of messages, relative to any base list, is restored, and its check value is correct."""
    store = Store()
    texts = [json.dumps({"messages": [{"content": one} for one in history(number)]}) for number in range(1, 60)]

    store.add(*texts)

    assert store.expanded() == [json.loads(text) for text in texts]
