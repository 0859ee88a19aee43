"""Stores the texts of runs in tables of SQLite, and finds the runs that have a text.

Each distinct text is stored and indexed once, however many runs have the text. Texts are numbered. A block has the new
texts of one run, compressed. `digests` finds a text that is stored already, and `uses` has the runs of each text.

The tokens of the texts are in several FTS5 tables, each for a limited length of texts. FTS5 removes the tokens of a
text from the file only if it writes the whole table again. So a deletion costs the tables that have the deleted texts,
and not the whole index. The tables are contentless. To delete tokens, FTS5 needs the text, and the block has it. SQLite
before 3.43 can delete in no other way.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import NamedTuple

from trace_recorder.catalog.searched_values import PLACES, SearchPlace, TextInRun, TextSearch

SCHEMA = """
CREATE TABLE word_tables (id INTEGER PRIMARY KEY, characters INTEGER NOT NULL, has_deleted INTEGER NOT NULL);
CREATE TABLE blocks (first INTEGER PRIMARY KEY, texts INTEGER NOT NULL, word_table INTEGER NOT NULL,
                     data BLOB NOT NULL);
CREATE TABLE digests (digest INTEGER PRIMARY KEY, text INTEGER NOT NULL);
CREATE TABLE uses (text INTEGER, run INTEGER, place INTEGER, PRIMARY KEY (text, run)) WITHOUT ROWID;
"""
_WORDS = "CREATE VIRTUAL TABLE words_{} USING fts5 (text, content='', columnsize=0, tokenize='unicode61')"


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """The limits within which an index is written."""

    word_table_characters: int = 4_000_000
    """A table of words whose texts have this many characters gets no more texts."""
    block_characters: int = 256_000
    """A block whose texts have this many characters gets no more texts."""
    level: int = 6
    """The level at which texts are compressed, as for `zlib`."""
    digest_bytes: int = 8
    """The length of a text's digest."""
    free_pages: int = 128
    """At most this many pages, or a twentieth of the file, stay free.

    A table of words that is written again needs fewer, so these stay for the next one.
    """
    pages_at_once: int = 1000
    """So many pages are given back in one transaction."""


USUAL_LIMITS = IndexLimits()


class _Block(NamedTuple):
    """Texts with consecutive numbers, of which `first` is the first. A deleted text is empty."""

    first: int
    word_table: int
    texts: list[str]


class TextTables:
    """The tables of texts in a database. The caller begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection, limits: IndexLimits = USUAL_LIMITS) -> None:
        self._connection = connection
        self._limits = limits

    def add(self, run: int, texts: Iterable[TextInRun]) -> list[int]:
        """Add the texts of a run. Return their numbers."""
        sql = "SELECT first + texts FROM blocks ORDER BY first DESC LIMIT 1"
        [first] = self._connection.execute(sql).fetchone() or (1,)
        new: dict[str, int] = {}
        places: dict[int, SearchPlace] = {}
        for _, place, _, text in texts:
            number = new.get(text)
            if number is None:
                digest = text_digest(text, self._limits.digest_bytes)
                number = self._stored_number(text, digest, before=first)
                if number is None:
                    number = new[text] = first + len(new)
                    self._connection.execute("INSERT OR IGNORE INTO digests VALUES (?, ?)", (digest, number))
            places.setdefault(number, place)
        self._add_blocks(first, new)
        uses = [(number, run, PLACES.index(place)) for number, place in places.items()]
        self._connection.executemany("INSERT INTO uses VALUES (?, ?, ?)", uses)
        return [*places]

    def remove_uses(self, run: int, numbers: Iterable[int]) -> None:
        """Remove a run from texts."""
        self._connection.executemany("DELETE FROM uses WHERE text = ? AND run = ?", ((text, run) for text in numbers))

    def delete_unused(self, numbers: Iterable[int]) -> None:
        """Delete the texts with these numbers that no run has any more. `forget_deleted` overwrites their tokens."""
        sql = "SELECT 1 FROM uses WHERE text = ? LIMIT 1"
        unused = [text for text in sorted(numbers) if self._connection.execute(sql, (text,)).fetchone() is None]
        while unused:
            block = self._block_of(unused[0])
            of_block = [number for number in unused if number < block.first + len(block.texts)]
            self._delete(block, of_block)
            unused = unused[len(of_block) :]

    def has_deleted(self) -> bool:
        """Return whether the file has tokens of deleted texts."""
        return self._connection.execute("SELECT 1 FROM word_tables WHERE has_deleted LIMIT 1").fetchone() is not None

    def forget_deleted(self) -> Iterator[None]:
        """Write each table that has tokens of deleted texts again, without these tokens. Yield after each table."""
        execute = self._connection.execute
        for table, characters in execute("SELECT id, characters FROM word_tables WHERE has_deleted").fetchall():
            if characters:
                self._merge(table)
            else:
                execute(f"DROP TABLE words_{table}")
                execute("DELETE FROM word_tables WHERE id = ?", (table,))
            yield

    def runs_with(self, search: TextSearch) -> set[int]:
        """Return the runs that have a text which the search looks for."""
        if search.phrase is not None:
            return self._runs_with_phrase(search.phrase)
        runs: set[int] = set()
        places = {PLACES.index(place) for place in search.places}
        for block in self._blocks(search.part):
            for number, text in enumerate(block.texts, block.first):
                if text and search.is_wanted(text):
                    rows = self._connection.execute("SELECT run, place FROM uses WHERE text = ?", (number,))
                    runs.update(run for run, place in rows if place in places)
        return runs

    def clear(self) -> None:
        """Remove all texts."""
        for (table,) in self._connection.execute("SELECT id FROM word_tables").fetchall():
            self._connection.execute(f"INSERT INTO words_{table} (words_{table}) VALUES ('delete-all')")  # noqa: S608 - a name of ours
        self._connection.execute("UPDATE word_tables SET characters = 0")
        for name in ("blocks", "digests", "uses"):
            self._connection.execute(f"DELETE FROM {name}")  # noqa: S608 - a name of ours

    def texts(self) -> Iterator[str]:
        """Yield all texts."""
        return (text for block in self._blocks() for text in block.texts if text)

    def _runs_with_phrase(self, phrase: str) -> set[int]:
        runs: set[int] = set()
        for (table,) in self._connection.execute("SELECT id FROM word_tables").fetchall():
            words = f"words_{table}"
            sql = f"SELECT run FROM uses WHERE text IN (SELECT rowid FROM {words} WHERE {words} MATCH ?)"  # noqa: S608 - a name of ours
            runs.update(run for (run,) in self._connection.execute(sql, (phrase,)))
        return runs

    def _stored_number(self, text: str, digest: int, before: int) -> int | None:
        """Return the number of a text that is stored before this number.

        Digests are short, so the texts are compared too.
        """
        row = self._connection.execute("SELECT text FROM digests WHERE digest = ?", (digest,)).fetchone()
        if row is None or row[0] >= before:
            return None
        number = int(row[0])
        block = self._block_of(number)
        if block.texts[number - block.first] != text:
            return None
        return number

    def _add_blocks(self, first: int, texts: Iterable[str]) -> None:
        waiting: list[str] = []
        characters = 0
        for text in texts:
            waiting.append(text)
            characters += len(text)
            if characters >= self._limits.block_characters:
                self._add_block(first, waiting, characters)
                first += len(waiting)
                waiting, characters = [], 0
        if waiting:
            self._add_block(first, waiting, characters)

    def _add_block(self, first: int, texts: Sequence[str], characters: int) -> None:
        table = self._word_table()
        self._connection.executemany(
            f"INSERT INTO words_{table} (rowid, text) VALUES (?, ?)",  # noqa: S608 - a name of ours
            enumerate(texts, first),
        )
        block = first, len(texts), table, _encode(texts, self._limits.level)
        self._connection.execute("INSERT INTO blocks VALUES (?, ?, ?, ?)", block)
        if self._add_characters(table, characters) >= self._limits.word_table_characters:
            self._merge(table)

    def _word_table(self) -> int:
        """Return the table that gets the next words: the fullest one with room, so that only one table grows."""
        execute = self._connection.execute
        row = execute(
            "SELECT id FROM word_tables WHERE characters < ? ORDER BY characters DESC LIMIT 1",
            (self._limits.word_table_characters,),
        ).fetchone()
        if row is not None:
            return int(row[0])
        table = execute("INSERT INTO word_tables VALUES (NULL, 0, 0)").lastrowid or 0
        execute(_WORDS.format(table))
        execute(f"INSERT INTO words_{table} (words_{table}, rank) VALUES ('automerge', 0)")  # noqa: S608 - a name of ours
        return table

    def _add_characters(self, table: int, characters: int) -> int:
        """Add to the length of the texts of a table. Return their whole length."""
        execute = self._connection.execute
        execute("UPDATE word_tables SET characters = characters + ? WHERE id = ?", (characters, table))
        return int(execute("SELECT characters FROM word_tables WHERE id = ?", (table,)).fetchone()[0])

    def _merge(self, table: int) -> None:
        """Write a table of words as one segment, without the tokens of deleted texts."""
        self._connection.execute(f"INSERT INTO words_{table} (words_{table}) VALUES ('optimize')")  # noqa: S608 - a name of ours
        self._connection.execute("UPDATE word_tables SET has_deleted = 0 WHERE id = ?", (table,))

    def _block_of(self, number: int) -> _Block:
        """Return the block that has the text with this number."""
        row = self._connection.execute(
            "SELECT first, word_table, data FROM blocks WHERE first <= ? ORDER BY first DESC LIMIT 1", (number,)
        ).fetchone()
        first, table, data = row
        return _Block(first, table, _split(zlib.decompress(data)))

    def _blocks(self, part: str = "") -> Iterator[_Block]:
        """Yield the blocks that contain `part`. It may go from one text of a block into the next."""
        encoded = part.encode()
        for first, table, data in self._connection.execute("SELECT first, word_table, data FROM blocks"):
            plain = zlib.decompress(data)
            if encoded in plain:
                yield _Block(first, table, _split(plain))

    def _delete(self, block: _Block, numbers: Sequence[int]) -> None:
        """Delete texts of a block. A block without texts is deleted."""
        texts = [block.texts[number - block.first] for number in numbers]
        words = f"words_{block.word_table}"
        executemany, execute = self._connection.executemany, self._connection.execute
        executemany(
            f"INSERT INTO {words} ({words}, rowid, text) VALUES ('delete', ?, ?)",  # noqa: S608 - a name of ours
            zip(numbers, texts, strict=True),
        )
        digests = [text_digest(text, self._limits.digest_bytes) for text in texts]
        executemany("DELETE FROM digests WHERE digest = ? AND text = ?", zip(digests, numbers, strict=True))
        execute("UPDATE word_tables SET has_deleted = 1 WHERE id = ?", (block.word_table,))
        self._add_characters(block.word_table, -sum(map(len, texts)))
        for number in numbers:
            block.texts[number - block.first] = ""
        if any(block.texts):
            execute(
                "UPDATE blocks SET data = ? WHERE first = ?", (_encode(block.texts, self._limits.level), block.first)
            )
        else:
            execute("DELETE FROM blocks WHERE first = ?", (block.first,))


def text_digest(text: str, size: int) -> int:
    """Return a digest of a text, of at most 8 bytes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest(), signed=True)


def _encode(texts: Sequence[str], level: int) -> bytes:
    """Return texts as bytes: their lengths as JSON in the first line, and the texts one after another."""
    return zlib.compress(f"{json.dumps([*map(len, texts)])}\n{''.join(texts)}".encode(), level)


def _split(data: bytes) -> list[str]:
    """Return the texts of a block, from its decompressed bytes."""
    lengths, _, texts = data.decode().partition("\n")
    return [texts[start:end] for start, end in pairwise(accumulate(json.loads(lengths), initial=0))]
