"""A journal in memory to which requests are encoded, and from which they are expanded."""

from __future__ import annotations

import json

from trace_recorder.storage.items.encoder import MAX_KNOWN_ITEMS, Encoded, ItemEncoder
from trace_recorder.storage.items.large_strings import MIN_STRING_CHARACTERS
from trace_recorder.storage.items.table import ItemTable
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
                table.add_item(record["data"])
                continue
            table.add_base(seq, record["data"]["items"])
            bodies.append(table.expand(record["data"]))
        return bodies


def records(encoded: Encoded) -> list[tuple[str, str]]:
    """Return the records of an encoded request: those of its new items, and its own."""
    items = [("item", f"{{{new.own_members},{new.members_to_mask}}}") for new in encoded.new]
    return [*items, ("llm_request", f'{{"items":{encoded.items},"body":{encoded.body}}}')]
