"""Stores numbered texts in compressed blocks, in a table of SQLite.

A block has texts with consecutive numbers, of several runs. The last block gets more texts until it is full. A block
that is read stays decompressed until a few others were read, and changes of it are written when it goes, or by `flush`.
So neighbours that are added or deleted compress their block once. Compressed are the lengths of the texts as JSON in
the first line, and the texts one after another.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

SCHEMA = """
CREATE TABLE blocks (first INTEGER PRIMARY KEY, texts INTEGER NOT NULL, word_table INTEGER NOT NULL,
                     data BLOB NOT NULL);
"""
_BLOCKS_IN_MEMORY = 8


@dataclass(slots=True)
class TextBlock:
    """Texts with consecutive numbers, of which `first` is the first. A deleted text is empty.

    The table of words `word_table` has their words. `is_changed` is True if the file has not these texts.
    """

    first: int
    word_table: int
    texts: list[str]
    is_changed: bool = False
    characters: int = field(init=False)
    """The length of the texts that were not deleted."""

    def __post_init__(self) -> None:
        self.characters = sum(map(len, self.texts))

    @property
    def end(self) -> int:
        """The number after that of the last text."""
        return self.first + len(self.texts)

    def text(self, number: int) -> str:
        """Return the text with this number."""
        return self.texts[number - self.first]

    def add(self, text: str) -> None:
        """Add a text at the end."""
        self.texts.append(text)
        self.characters += len(text)
        self.is_changed = True

    def delete(self, number: int) -> str:
        """Delete the text with this number, and return it."""
        text = self.text(number)
        self.texts[number - self.first] = ""
        self.characters -= len(text)
        self.is_changed = True
        return text

    def numbered(self) -> Iterator[tuple[int, str]]:
        """Yield the texts that are not deleted, with their numbers."""
        return ((number, text) for number, text in enumerate(self.texts, self.first) if text)


class TextBlocks:
    """The blocks of a database. The caller begins and ends transactions, and calls `flush` before each end."""

    def __init__(self, connection: sqlite3.Connection, level: int) -> None:
        self._connection = connection
        self._level = level
        self._in_memory: dict[int, TextBlock] = {}

    def last(self) -> TextBlock | None:
        """Return the block with the highest numbers."""
        last = None
        if self._in_memory:
            last = self._in_memory[max(self._in_memory)]
        row = self._connection.execute("SELECT max(first) FROM blocks").fetchone()
        if row[0] is None or (last is not None and last.first >= row[0]):
            return last
        return self.with_text(row[0])

    def new(self, first: int, word_table: int) -> TextBlock:
        """Return a new block without texts."""
        return self._remember(TextBlock(first, word_table, [], is_changed=True))

    def with_text(self, number: int) -> TextBlock:
        """Return the block that has the text with this number."""
        for block in self._in_memory.values():
            if block.first <= number < block.end:
                return block
        sql = "SELECT first, word_table, data FROM blocks WHERE first <= ? ORDER BY first DESC LIMIT 1"
        first, table, data = self._connection.execute(sql, (number,)).fetchone()
        return self._remember(TextBlock(first, table, _split(zlib.decompress(data))))

    def containing(self, part: str = "") -> Iterator[TextBlock]:
        """Yield the blocks that contain `part`. It may go from one text of a block into the next."""
        self.flush()
        encoded = part.encode()
        for first, table, data in self._connection.execute("SELECT first, word_table, data FROM blocks"):
            plain = zlib.decompress(data)
            if encoded in plain:
                yield TextBlock(first, table, _split(plain))

    def flush(self) -> None:
        """Write the changed blocks. A block without texts is deleted."""
        for block in self._in_memory.values():
            self._write(block)

    def clear(self) -> None:
        """Delete all blocks."""
        self._in_memory.clear()
        self._connection.execute("DELETE FROM blocks")

    def _remember(self, block: TextBlock) -> TextBlock:
        while len(self._in_memory) >= _BLOCKS_IN_MEMORY:
            self._write(self._in_memory.pop(next(iter(self._in_memory))))
        self._in_memory[block.first] = block
        return block

    def _write(self, block: TextBlock) -> None:
        if not block.is_changed:
            return
        if any(block.texts):
            plain = f"{json.dumps([*map(len, block.texts)])}\n{''.join(block.texts)}"
            values = block.first, len(block.texts), block.word_table, zlib.compress(plain.encode(), self._level)
            self._connection.execute("REPLACE INTO blocks VALUES (?, ?, ?, ?)", values)
        else:
            self._connection.execute("DELETE FROM blocks WHERE first = ?", (block.first,))
        block.is_changed = False


def _split(data: bytes) -> list[str]:
    """Return the texts of a block, from its decompressed bytes."""
    lengths, _, texts = data.decode().partition("\n")
    return [texts[start:end] for start, end in pairwise(accumulate(json.loads(lengths), initial=0))]
