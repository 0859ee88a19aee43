"""A journal in memory to which requests are encoded, and from which they are expanded."""

from __future__ import annotations

import json

from trace_recorder.facts import ItemFact, Itemized
from trace_recorder.storage.fact_reader import read_fact
from trace_recorder.storage.fact_writer import fact_text, record_of
from trace_recorder.storage.items.encoder import MAX_KNOWN_ITEMS, Encoded, ItemEncoder
from trace_recorder.storage.items.large_strings import MIN_STRING_CHARACTERS
from trace_recorder.storage.items.table import ItemTable
from trace_recorder.storage.journal_lines import Data
from trace_recorder.values.messages import Payload

LARGE = "x" * MIN_STRING_CHARACTERS


class Store:
    """Encodes requests into a journal in memory, and reads them back from its bytes."""

    def __init__(self, refused: int = 0, *, max_known_items: int = MAX_KNOWN_ITEMS) -> None:
        self.lines: list[bytes] = []
        self.lost: list[str] = []
        self._writes_left = refused
        self._encoder = ItemEncoder(max_known_items=max_known_items)

    def _write(self, encoded: Encoded) -> int:
        lines = [f'{{"kind":"{kind}","data":{data}}}' for kind, data in records(encoded)]
        self._writes_left -= 1
        if self._writes_left == 0:
            raise OSError("no room")
        assert "\n" not in "".join(lines)
        self.lines += [line.encode() for line in lines]
        return len(self.lines)

    def add(self, *texts: str) -> None:
        for text in texts:
            self.lost.append(text)
            encoded = self._encoder.encode(text.encode())
            encoded.mark_written(self._write(encoded))
            self.lost.remove(text)

    def kinds(self) -> list[str]:
        return [json.loads(line)["kind"] for line in self.lines]

    def expanded(self) -> list[Payload]:
        table, bodies = ItemTable(), []
        for seq, record in enumerate(map(json.loads, self.lines), start=1):
            if record["kind"] == "item":
                table.add(item_of(record["data"]))
                continue
            request = request_of(record["data"])
            table.add_base(seq, request.items or {})
            bodies.append(table.expand(request.body, request.items or {}))
        return bodies


def text_of_data(data: Data) -> str:
    """Return the data of a record as text."""
    return data if isinstance(data, str) else b"".join(data).decode()


def item_of(data: dict[str, Payload]) -> ItemFact:
    """Return the fact of an item's record."""
    fact = read_fact("item", data).fact
    assert isinstance(fact, ItemFact)
    return fact


def request_of(data: dict[str, Payload]) -> Itemized:
    """Return the fact of a request's record, which may lack other members than its body and its items."""
    fact = read_fact("llm_request", {"interaction_id": "llm_1", "attempt": 0, **data}).fact
    assert isinstance(fact, Itemized)
    return fact


class _Request(Itemized, frozen=True, kw_only=True):
    """A request with nothing but its body."""

    kind = "llm_request"


def records(encoded: Encoded) -> list[tuple[str, str]]:
    """Return the records of an encoded request: those of its new items, and its own."""
    facts = [*encoded.new, _Request(items=encoded.items, body=encoded.body)]
    return [(kind, text_of_data(data)) for kind, data in map(record_of, map(fact_text, facts))]
