"""Stores the texts of runs in tables of SQLite, and finds the runs that have a text.

Each distinct text is stored and indexed once, however many runs have the text. Texts are numbered, and are in
compressed blocks (`text_blocks.py`). `digests` finds a text that is stored already. A span has the new texts of one
run, which are consecutive. `uses` has the other runs of each text.

The tokens of the texts are in several FTS5 tables, each for a limited length of texts. FTS5 removes the tokens of a
text from the file only if it writes the whole table again. So a deletion costs the tables that have the deleted texts,
and not the whole index. The tables are contentless. To delete tokens, FTS5 needs the text, and the block has it. SQLite
before 3.43 can delete in no other way. The tokens have no positions, so `phrases.py` reads the texts that have all
words of a phrase.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b

from trace_recorder.catalog import text_blocks
from trace_recorder.catalog.index_limits import USUAL_LIMITS, IndexLimits
from trace_recorder.catalog.phrases import TOKENIZER, Phrase
from trace_recorder.catalog.searched_values import PLACES, SearchPlace, TextInRun, TextSearch
from trace_recorder.catalog.text_blocks import TextBlock, TextBlocks

SCHEMA = f"""
CREATE TABLE word_tables (id INTEGER PRIMARY KEY, characters INTEGER NOT NULL, has_deleted INTEGER NOT NULL);
{text_blocks.SCHEMA}
CREATE TABLE digests (digest INTEGER PRIMARY KEY, text INTEGER NOT NULL);
CREATE TABLE spans (first INTEGER PRIMARY KEY, run INTEGER NOT NULL, places BLOB NOT NULL);
CREATE TABLE uses (text INTEGER, run INTEGER, place INTEGER, PRIMARY KEY (text, run)) WITHOUT ROWID;
"""
_WORDS = (
    f"CREATE VIRTUAL TABLE words_{{}} USING fts5 (text, content='', columnsize=0, detail=none, tokenize='{TOKENIZER}')"
)
_SPAN_OF = "SELECT first, run, places FROM spans WHERE first = (SELECT max(first) FROM spans WHERE first <= ?)"
_RUNS_OF_SPANS = """
SELECT run FROM json_each(?) JOIN spans ON first = (SELECT max(first) FROM spans WHERE first <= value)
WHERE value < first + length(places)
"""
_NUMBERS = {place: number for number, place in enumerate(PLACES)}
_Use = tuple[int, int]
"""A run, and the position in `PLACES` of the place at which the run has a text."""


class TextTables:
    """The tables of texts in a database. The caller begins and ends transactions, and calls `flush` before each end."""

    def __init__(self, connection: sqlite3.Connection, limits: IndexLimits = USUAL_LIMITS) -> None:
        self._connection = connection
        self._limits = limits
        self._blocks = TextBlocks(connection, limits.level)
        self._unindexed: list[tuple[int, str]] = []

    def add(self, run: int, texts: Iterable[TextInRun]) -> list[int]:
        """Add the texts of a run. Return their numbers."""
        places: dict[str, SearchPlace] = {}
        for _, place, _, text in texts:
            places.setdefault(text, place)
        digests = dict(zip(places, self._digests(places), strict=True))
        stored = self._stored_numbers(digests)
        uses = [(number, run, _NUMBERS[places[text]]) for text, number in stored.items()]
        self._connection.executemany("INSERT INTO uses VALUES (?, ?, ?)", uses)
        new = [text for text in places if text not in stored]
        if not new:
            return [*stored.values()]
        first = self._add_new(new)
        numbers = range(first, first + len(new))
        span = first, run, bytes([_NUMBERS[places[text]] for text in new])
        self._connection.execute("INSERT INTO spans VALUES (?, ?, ?)", span)
        stored_digests = zip(map(digests.__getitem__, new), numbers, strict=True)
        self._connection.executemany("INSERT OR IGNORE INTO digests VALUES (?, ?)", stored_digests)
        return [*stored.values(), *numbers]

    def flush(self) -> None:
        """Write all texts and words that are in memory."""
        if self._unindexed:
            self._index()
        self._blocks.flush()

    def remove_uses(self, run: int, numbers: Sequence[int]) -> None:
        """Remove a run from texts."""
        pairs = [(text, run) for text in numbers]
        self._connection.executemany("DELETE FROM uses WHERE text = ? AND run = ?", pairs)
        self._connection.executemany("DELETE FROM spans WHERE first = ? AND run = ?", pairs)

    def delete_unused(self, numbers: Iterable[int]) -> None:
        """Delete the texts with these numbers that no run has any more. `forget_deleted` overwrites their tokens."""
        sql = "SELECT 1 FROM uses WHERE text = ? LIMIT 1"  # a system prompt may have a use for each run
        unused = [
            text
            for text in sorted(numbers)
            if self._first_use_of(text) is None and self._connection.execute(sql, (text,)).fetchone() is None
        ]
        if unused and self._unindexed:
            self._index()
        while unused:
            block = self._blocks.with_text(unused[0])
            of_block = [number for number in unused if number < block.end]
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
        self.flush()
        if search.phrase is not None:
            return self._runs_of(self._texts_with(search.phrase))
        runs: set[int] = set()
        places = {_NUMBERS[place] for place in search.places}
        for block in self._blocks.containing(search.part):
            for number, text in block.numbered():
                if search.is_wanted(text):
                    runs.update(run for run, place in self._uses_of(number) if place in places)
        return runs

    def clear(self) -> None:
        """Remove all texts."""
        self._unindexed.clear()
        for (table,) in self._connection.execute("SELECT id FROM word_tables").fetchall():
            self._connection.execute(f"INSERT INTO words_{table} (words_{table}) VALUES ('delete-all')")  # noqa: S608 - a name of ours
        self._connection.execute("UPDATE word_tables SET characters = 0")
        self._blocks.clear()
        for name in ("digests", "spans", "uses"):
            self._connection.execute(f"DELETE FROM {name}")  # noqa: S608 - a name of ours

    def texts(self) -> Iterator[str]:
        """Yield all texts."""
        return (text for block in self._blocks.containing() for _, text in block.numbered())

    # ── searching ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _texts_with(self, quoted: str) -> list[int]:
        """Return the numbers of the texts that have a phrase."""
        with closing(Phrase(quoted)) as phrase:
            candidates = self._matching(" AND ".join(f'"{word}"' for word in phrase.words))
            if len(phrase.words) == 1:
                return candidates
            numbers: list[int] = []
            while candidates:
                block = self._blocks.with_text(candidates[0])
                count = bisect_left(candidates, block.end)
                numbers += phrase.texts_with((number, block.text(number)) for number in candidates[:count])
                candidates = candidates[count:]
            return numbers

    def _matching(self, expression: str) -> list[int]:
        """Return the numbers of the texts that match an expression of FTS5, in their order."""
        numbers: list[int] = []
        if not expression:
            return numbers
        for (table,) in self._connection.execute("SELECT id FROM word_tables").fetchall():
            words = f"words_{table}"
            sql = f"SELECT rowid FROM {words} WHERE {words} MATCH ?"  # noqa: S608 - a name of ours
            numbers += [number for (number,) in self._connection.execute(sql, (expression,))]
        return sorted(numbers)

    def _runs_of(self, numbers: Sequence[int]) -> set[int]:
        """Return the runs that have one of these texts."""
        listed = (json.dumps(numbers),)
        sql = "SELECT run FROM uses WHERE text IN (SELECT value FROM json_each(?))"
        runs = {run for (run,) in self._connection.execute(sql, listed)}
        return runs.union(run for (run,) in self._connection.execute(_RUNS_OF_SPANS, listed))

    def _uses_of(self, number: int) -> list[_Use]:
        """Return the runs that have a text."""
        sql = "SELECT run, place FROM uses WHERE text = ?"
        uses: list[_Use] = self._connection.execute(sql, (number,)).fetchall()
        first_use = self._first_use_of(number)
        if first_use is not None:
            uses.append(first_use)
        return uses

    def _first_use_of(self, number: int) -> _Use | None:
        """Return the run with whose span a text was stored, or None if that run is gone."""
        row = self._connection.execute(_SPAN_OF, (number,)).fetchone()
        if row is None or number >= row[0] + len(row[2]):
            return None
        first, run, places = row
        return run, places[number - first]

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _digests(self, texts: Iterable[str]) -> list[int]:
        return [text_digest(text, self._limits.digest_bytes) for text in texts]

    def _stored_numbers(self, digests: Mapping[str, int]) -> dict[str, int]:
        """Return the numbers of the texts that are stored. Digests are short, so the texts are compared too."""
        by_digest = {digest: text for text, digest in digests.items()}
        sql = "SELECT digest, text FROM digests WHERE digest IN (SELECT value FROM json_each(?))"
        stored: dict[str, int] = {}
        for digest, number in self._connection.execute(sql, (json.dumps([*by_digest]),)).fetchall():
            text = by_digest[digest]
            if self._blocks.with_text(number).text(number) == text:
                stored[text] = number
        return stored

    def _add_new(self, texts: Iterable[str]) -> int:
        """Add texts to the last block, and to new ones. Return the number of the first text."""
        block = self._blocks.last()
        first = 1
        if block is not None:
            first = block.end
        if block is None or block.word_table != self._word_table():
            block = self._new_block(first)
        for number, text in enumerate(texts, first):
            if block.characters >= self._limits.block_characters:
                block = self._new_block(number)
            block.add(text)
            self._unindexed.append((number, text))
        return first

    def _new_block(self, first: int) -> TextBlock:
        """Return a new block, in which all texts from the number `first` on will be."""
        self.flush()
        return self._blocks.new(first, self._word_table())

    def _index(self) -> None:
        """Write the words of the texts that are only in memory. All of them are in the last block."""
        table = self._blocks.with_text(self._unindexed[0][0]).word_table
        self._connection.executemany(
            f"INSERT INTO words_{table} (rowid, text) VALUES (?, ?)",  # noqa: S608 - a name of ours
            self._unindexed,
        )
        characters = self._add_characters(table, sum(len(text) for _, text in self._unindexed))
        self._unindexed.clear()
        if characters >= self._limits.word_table_characters:
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

    # ── deleting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self, block: TextBlock, numbers: Sequence[int]) -> None:
        """Delete texts of a block."""
        texts = [block.delete(number) for number in numbers]
        words = f"words_{block.word_table}"
        executemany = self._connection.executemany
        executemany(
            f"INSERT INTO {words} ({words}, rowid, text) VALUES ('delete', ?, ?)",  # noqa: S608 - a name of ours
            zip(numbers, texts, strict=True),
        )
        digests = zip(self._digests(texts), numbers, strict=True)
        executemany("DELETE FROM digests WHERE digest = ? AND text = ?", digests)
        self._connection.execute("UPDATE word_tables SET has_deleted = 1 WHERE id = ?", (block.word_table,))
        self._add_characters(block.word_table, -sum(map(len, texts)))


def text_digest(text: str, size: int) -> int:
    """Return a digest of a text, of at most 7 bytes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest())
