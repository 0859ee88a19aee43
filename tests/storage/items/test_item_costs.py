"""The cost of items: bytes and time of a call after any history, and the calls that a damaged item affects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.histories import PATTERNS, append_only
from tests.journals import TIME, RawRecord, read_raw
from tests.storage.items.store import LARGE, item_of, records, request_of
from trace_recorder.storage.items.encoder import ItemEncoder
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_reader import BadLine
from trace_recorder.values.messages import Payload


def journal_of_calls(path: Path, calls: Iterator[list[Payload]]) -> tuple[list[int], list[str]]:
    """Encode every call into a journal, and return the journal's size after each call, and the last texts."""
    journal = Journal.create(path)
    encoder = ItemEncoder()
    sizes, texts = [], []
    spelled: dict[int, tuple[Payload, str]] = {}
    for messages in calls:
        parts = [spelled.setdefault(id(message), (message, json.dumps(message)))[1] for message in messages]
        text = '{"model":"m","messages":[' + ", ".join(parts) + "]}"
        encoded = encoder.encode(text.encode())
        encoded.mark_written(journal.append_all(records(encoded), TIME))
        sizes.append(journal.size)
        texts.append(text)
    journal.close()
    return sizes, texts


def requests_of(path: Path) -> Iterator[tuple[ItemTable, RawRecord]]:
    table = ItemTable()
    for record in read_raw(path.read_bytes()):
        assert isinstance(record, RawRecord)
        if record.kind == "item":
            table.add(item_of(record.data))
        else:
            table.add_base(record.seq, request_of(record.data).items or {})
            yield table, record


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.__name__)
def test_three_hundred_calls_cost_only_their_new_content(tmp_path: Path, pattern: object) -> None:
    """300 calls of 3 KB take at most 2.5 MB and can be restored, for every kind of change of the history."""
    path = tmp_path / "run.jsonl"

    sizes, texts = journal_of_calls(path, pattern())  # type: ignore[operator]

    wrong = [
        number
        for number, (table, record) in enumerate(requests_of(path))
        if number % 23 == 0 and expanded(table, record) != json.loads(texts[number])
    ]
    assert wrong == []
    assert sizes[-1] <= 2_500_000


def test_a_call_costs_the_same_after_any_history(tmp_path: Path) -> None:
    """The bytes of a call do not grow with the history before it, except for the digits of its numbers."""
    sizes, _ = journal_of_calls(tmp_path / "run.jsonl", append_only())

    cost = [after - before for before, after in pairwise(sizes[1:])]
    assert max(cost) - min(cost) <= 30


def test_a_damaged_item_affects_only_the_calls_that_use_it(tmp_path: Path) -> None:
    """If an item cannot be read, only the calls whose requests refer to it cannot be expanded."""
    path = tmp_path / "run.jsonl"
    calls = [["a", "b"], ["b", "c", "a"], [LARGE], ["c"], [LARGE + "d", "d", LARGE], ["a", "c"]]
    texts = [json.dumps({"messages": [{"content": one} for one in call]}) for call in calls]
    journal = Journal.create(path)
    encoder = ItemEncoder()
    for text in texts:
        encoded = encoder.encode(text.encode())
        encoded.mark_written(journal.append_all(records(encoded), TIME))
    journal.close()
    whole = list(read_raw(path.read_bytes()))

    for lost in (one for one in whole if isinstance(one, RawRecord) and one.kind == "item"):
        value = lost.data["value"]
        content = value if "s" in lost.data else value["content"]
        content = next((LARGE + "d" if number else LARGE for number in lost.data.get("strings", {}).values()), content)
        expected = [None if json.dumps(content) in text else json.loads(text) for text in texts]
        assert expanded_without(path.read_bytes(), lost) == expected, lost


def expanded(table: ItemTable, record: RawRecord) -> Payload:
    """Return the body of a request's record."""
    request = request_of(record.data)
    return table.expand(request.body, request.items or {})


def expanded_without(data: bytes, lost: RawRecord) -> list[Payload]:
    table, bodies = ItemTable(), []
    broken = data[: lost.offset] + b"#" * lost.length + data[lost.offset + lost.length :]
    for record in read_raw(broken):
        if isinstance(record, BadLine):
            continue
        if record.kind == "item":
            table.add(item_of(record.data))
            continue
        try:
            bodies.append(expanded(table, record))
        except KeyError:
            bodies.append(None)
    return bodies
