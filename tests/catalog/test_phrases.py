"""Phrases are found in texts as FTS5 finds them in a table with the positions of all words."""

from __future__ import annotations

import random
import sqlite3
import unicodedata
from collections.abc import Sequence
from contextlib import closing

from trace_recorder.catalog.phrases import TOKENIZER, Phrase

PIECES = (
    "exit",
    "Exit",
    "éxit",
    "code",
    "CODE",
    "1",
    "17",
    "naïve",
    "日本",
    "ß",
    "e\u0301xit",
    "\u212aelvin",
    "kelvin",
)
BETWEEN = (" ", "-", "_", "\n", "\0", "é", "—", "", "[", "`", "~", "\x7f", "x", "\u0301", "`A[")
LAST_COMPARED = 0x3000


def texts_by_fts(quoted: str, texts: Sequence[str]) -> set[int]:
    """Return the numbers of the texts that a table of FTS5 finds."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize='{TOKENIZER}')")
        connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        return {number for (number,) in connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (quoted,))}


def joined(chosen: random.Random, count: int) -> str:
    """Return pieces with something between them."""
    return "".join(f"{chosen.choice(PIECES)}{chosen.choice(BETWEEN)}" for _ in range(count))


def test_a_phrase_is_found_where_fts5_finds_it() -> None:
    """For phrases and texts with all kinds of letters, the numbers of the texts equal those of FTS5."""
    chosen = random.Random(3)
    texts = [joined(chosen, chosen.randint(1, 6)) for _ in range(400)]
    sizes = []
    for _ in range(80):
        quoted = f'"{joined(chosen, chosen.randint(1, 3))}"'.replace("\0", " ")
        with closing(Phrase(quoted)) as phrase:
            numbers = phrase.texts_with(enumerate(texts))
        assert numbers == texts_by_fts(quoted, texts), quoted
        sizes.append(len(numbers))

    assert sum(map(bool, sizes)) > 40


def test_the_words_of_ascii_are_its_letters_and_digits() -> None:
    """In ASCII, a word is a sequence of letters and digits, and every other character separates words."""
    for character in map(chr, range(128)):
        quoted = f'"a{character}b"'.replace('"""', '""""')
        expected = ("a", "b")
        if character.isalnum():
            expected = (f"a{character.lower()}b",)
        with closing(Phrase(quoted)) as phrase:
            assert phrase.words == expected, character


def test_a_word_as_stored_is_read_as_itself() -> None:
    """An index is asked for the words of a phrase as FTS5 stores them, so FTS5 has to read them as they are."""
    letters = [chr(code) for code in range(LAST_COMPARED) if unicodedata.category(chr(code)) != "Cs"]
    with (
        closing(Phrase(f'"{" ".join(letters)}"'.replace('"""', '""""'))) as phrase,
        closing(Phrase(f'"{" ".join(phrase.words)}"')) as again,
    ):
        assert again.words == phrase.words
        assert len(phrase.words) > LAST_COMPARED / 2
