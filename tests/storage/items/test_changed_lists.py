"""A request that changes the list of an earlier one has the records that it would have if all of it were parsed."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.histories import PATTERNS, Pattern
from tests.json_strategies import exactly
from tests.storage.items.store import LARGE, Store, records
from trace_recorder.storage.items.conversation_prefix import MIN_COMPARED_BYTES
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.values.json_text import NotJsonError

LONG = "y" * MIN_COMPARED_BYTES
"""Shorter requests are not compared."""


def records_of(texts: Sequence[str], *, prepares: bool, compares: bool) -> list[list[tuple[str, str]]]:
    """Return the records of requests, one list for each. If not `compares`, each of them is parsed as a whole."""
    encoder, seq, by_request = ItemEncoder(), 0, []
    for text in texts:
        if not compares:
            encoder._prefixes = []  # noqa: SLF001 - there is no other way to the slow form
        prepared = encoder.prepare(text.encode()) if prepares else None
        encoded = encoder.encode(text.encode(), prepared)
        by_request.append(records(encoded))
        seq += len(by_request[-1])
        encoded.mark_written(seq)
    return by_request


TRAPS = ('{"a":1}', '{"a":"},{\\"a\\":1}"}', '{"a":",{\\"b\\":2}"}', '{"é":"日本"}', '"x"', "12", "[]", '{"b":2}')
ELEMENTS = st.sampled_from(
    [*TRAPS, f'{{"c":"{LARGE}"}}', f'{{"c":"é{LARGE}é"}}', '{"d":"\\ud83d\\ude00"}', ' {"e":[{}]}']
)


@st.composite
def edited(draw: st.DrawFn) -> list[str]:
    """Return requests whose list gets insertions, removals and replacements at random places."""
    elements, texts = draw(st.lists(ELEMENTS, min_size=1, max_size=8)), []
    for _ in range(draw(st.integers(2, 6))):
        for _ in range(draw(st.integers(0, 3))):
            place, end = draw(st.integers(0, len(elements))), draw(st.integers(0, 2))
            elements = [*elements[:place], *draw(st.lists(ELEMENTS, max_size=2)), *elements[place + end :]]
        between = draw(st.sampled_from([",", ", ", "\n,"]))
        texts.append(f'{{"list":[{{"s":"{LONG}"}},{between.join([*elements, "{}"])}],"tail":[{{"t":1}}]}}')
    return texts


@pytest.mark.parametrize("prepares", [False, True])
@settings(max_examples=150)
@given(texts=edited())
@example(texts=[f'{{"list":[{{"s":"{LONG}"}},{{"a":1}},{{"b":2}}]}}', f'{{"list":[{{"s":"{LONG}"}},{{"b":2}}]}}'])
@example(texts=[f'{{"list":[{{"a":1}},{{"s":"{LONG}"}}]}}', f'{{"list":[{{"a":2}},{{"s":"{LONG}"}}]}}'])
@example(texts=[f'{{"list":[{{"a":1}},{{"s":"{LONG}"}}]}}', f'{{"list":[{{"s":"{LONG}"}}]}}'])
def test_records_are_those_of_a_whole_parse(*, texts: list[str], prepares: bool) -> None:
    """Whatever is inserted, removed or replaced, the records are the same bytes as without any comparison."""
    assert records_of(texts, prepares=prepares, compares=True) == records_of(texts, prepares=False, compares=False)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.__name__)
def test_records_of_histories_are_those_of_a_whole_parse(pattern: Pattern) -> None:
    """The histories that agents have give the same records with the comparison, and without it."""
    texts = [
        json.dumps({"model": "m", "messages": messages}) for messages, _ in zip(pattern(), range(60), strict=False)
    ]

    assert records_of(texts, prepares=True, compares=True) == records_of(texts, prepares=False, compares=False)


@pytest.mark.parametrize(
    "elements",
    [
        "",
        " ",
        ',{"a":1}',
        '{"a":1},',
        '{"a":1},,{"b":2}',
        '{"b":2}{"a":1}',
        '{"a":NaN},{"b":2}',
        '{"a":1},{"b":2},"\\ud800"',
    ],
)
def test_a_changed_list_that_is_not_json_is_refused(elements: str) -> None:
    """A changed list is refused if it is not JSON, as in a first request."""
    store = Store()
    store.add(f'{{"list":[{{"a":1}},{{"b":2}},{{"s":"{LONG}"}}]}}')
    store.add(f'{{"list":[{{"s":"{LONG}"}},{{"a":1}},{{"b":2}}]}}')

    for text in (f'{{"list":[{elements},{{"s":"{LONG}"}}]}}', f'{{"list":[{{"s":"{LONG}"}},{elements}]}}'):
        with pytest.raises(NotJsonError):
            store.add(text)


def test_an_edit_costs_what_it_changes() -> None:
    """If one of 2,000 messages is edited, less than a hundredth of the bytes counts as new, wherever the edit is."""
    texts = [json.dumps({"role": "user", "content": f"{number} {'é' * (number % 90)}"}) for number in range(2000)]
    encoder = ItemEncoder()
    encoder.encode(f'{{"messages":[{",".join(texts)}]}}'.encode()).mark_written(1)

    def new_bytes(elements: list[str]) -> int:
        changes = encoder.changes_of(f'{{"messages":[{",".join(elements)},{{"a":1}}]}}'.encode())
        assert changes is not None
        return changes.new_bytes()

    sizes = []
    for place in (0, 1, 777, 1998, 1999):
        changed = [*texts[:place], json.dumps({"role": "user", "content": "new"}), *texts[place + 1 :]]
        sizes.append(new_bytes(changed))
    slid = new_bytes([texts[0], *texts[40:]])

    assert max(*sizes, slid) < len("".join(texts)) / 100


def test_a_changed_request_is_restored() -> None:
    """Requests with edits are read back equal."""
    store, texts = Store(), []
    for number in range(30):
        elements = [{"n": n, "text": LONG[: 50 + n], "edited": n == number - 3} for n in range(number + 1)]
        texts.append(json.dumps({"list": elements[number // 7 :]}))
    store.add(*texts)

    assert exactly(store.expanded()) == exactly([json.loads(text) for text in texts])
