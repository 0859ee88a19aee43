"""Finds the texts that have a phrase: words one after another, as the tokenizer of FTS5 reads them.

The words of an index have no positions, because positions need more space than the words. So an index finds the texts
that have all words of a phrase, and these texts are read. Most are decided by a pattern of ASCII, in which the words of
FTS5 are letters and digits. FTS5 itself decides the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trace_recorder.catalog.memory_database import memory_database

TOKENIZER = "unicode61"
"""How FTS5 separates words, in an index and here."""


class Phrase:
    """A phrase, given as a quoted text of FTS5's query language. `words` are its words, as FTS5 stores them."""

    def __init__(self, quoted: str) -> None:
        self._quoted = quoted
        self._tables = memory_database(self)
        self._tables.execute(f"CREATE VIRTUAL TABLE texts USING fts5 (text, content='', tokenize='{TOKENIZER}')")
        self._tables.execute("CREATE VIRTUAL TABLE words USING fts5vocab (texts, instance)")
        self._put([(1, quoted[1:-1].replace('""', '"'))])
        self.words: tuple[str, ...] = tuple(
            word for (word,) in self._tables.execute("SELECT term FROM words ORDER BY offset")
        )
        self._pattern = None
        if quoted.isascii() and self.words:
            self._pattern = _pattern([word.encode() for word in self.words])

    def texts_with(self, texts: Iterable[tuple[int, str]]) -> set[int]:
        """Return the numbers of the texts that have the phrase."""
        numbers: set[int] = set()
        unclear: list[tuple[int, str]] = []
        for number, text in texts:
            if self._pattern is not None and self._pattern.search(text.encode().lower()):
                numbers.add(number)
            elif self._pattern is None or not text.isascii():  # FTS5 reads a letter such as é as e
                unclear.append((number, text))
        if unclear:
            self._put(unclear)
            sql = "SELECT rowid FROM texts WHERE texts MATCH ?"
            numbers.update(number for (number,) in self._tables.execute(sql, (self._quoted,)))
        return numbers

    def close(self) -> None:
        """Free the tables in memory."""
        self._tables.close()

    def _put(self, texts: Sequence[tuple[int, str]]) -> None:
        self._tables.execute("INSERT INTO texts (texts) VALUES ('delete-all')")
        self._tables.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", texts)


def _pattern(words: Sequence[bytes]) -> re.Pattern[bytes]:
    """Return the pattern of these words in lower case, if no other letter or digit and no byte beyond ASCII is beside.

    It begins with a word, because `re` finds the places of a fixed beginning quickly.
    """
    first, *others = words
    beside = rb"[0-9a-z\x80-\xff]"
    following = b"".join(rb"[\x00-/:-`{-\x7f]+" + word for word in others)
    return re.compile(rb"%s(?<!%s%s)%s(?!%s)" % (first, beside, first, following, beside))
