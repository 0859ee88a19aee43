"""A fast first search of a text: the words that may contain a key, and the places that may have the name of a secret.

A key has a long run of letters and digits, not of small letters alone; few words of prose or code have one. Only these
words are copied out, and searched by `key_finder.py` and `known_values.py`: this costs a fraction of searching the
whole text. Possible names of secrets are found by three of their letters (`Beginnings`). Both searches test all places
of a text at once: the text is one large integer, a byte a character, so that a shift and an "and" compare each
character with its neighbours. Invariant: a word is copied once, whole, and with the text right before it.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

SHORTEST = 12
"""A key has a run of at least this many letters, digits, hyphens and the like."""
ENCODED = 24
"""A word in base64 has at least this many if it is worth decoding."""
_BEFORE = 8
"""This many characters before a word are copied with it: they decide whether a key may begin where the word does."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_IN_RUNS = bytes((code in _LETTERS) for code in range(256))
_IS_TELLING = bytes((chr(code) in string.ascii_uppercase + string.digits) for code in range(256))
"""Capitals and digits: a run of small letters alone is no key."""
_IN_WORDS = bytes(ord("w") if code in _LETTERS + b".=~:|@%" else ord(" ") for code in range(256))
_RUN, _LONG_RUN = b"\1" * SHORTEST, b"\1" * ENCODED
_BLOCK = 1 << 15
"""This many characters are searched together: larger integers cost more for each character."""
_FEW, _SPARSE, _CHECKED = 16, 150, 256
"""A text with more than a few such words, and with one in this many characters, is not copied: it is one word.

This is checked after every 256 of these words, and at the end."""


class Look:
    """A text, one byte a character so that positions are the same; where long runs begin in it; its possible keys."""

    __slots__ = ("_begins", "_starts", "data", "plain", "runs", "text", "words")

    def __init__(self, text: str, *, runs: bool = True) -> None:
        self.text = text
        self.data = text.encode("latin-1", "replace")
        self.plain = text if text.isascii() else self.data.decode("latin-1")
        self.runs: list[int] = []
        self.words = ""
        if runs:
            letters = self.data.translate(_IN_RUNS)
            at = letters.find(_RUN)
            if at >= 0:
                self._see(letters, at)

    def _see(self, letters: bytes, at: int) -> None:
        """Find the runs, from the first on, and copy the words of possible keys.

        `letters` has a 1 for each character of a run.
        """
        find, find_telling = letters.find, self.data.translate(_IS_TELLING).find
        telling: list[int] = []
        while at >= 0:
            end = find(0, at + SHORTEST)
            if end < 0:
                end = len(letters)
            if end - at >= ENCODED:
                self.runs.append(at)
            if find_telling(1, at, end) >= 0:
                telling.append(at)
                if len(telling) % _CHECKED == 0 and _is_dense(len(telling), end):
                    self._see_long(letters, end)
                    return
            at = find(_RUN, end)
        if len(telling) >= _FEW and _is_dense(len(telling), len(letters)):
            self.words, self._starts, self._begins = self.plain, [0], [0]
        elif telling:
            self._copy(telling)

    def _see_long(self, letters: bytes, at: int) -> None:
        """Take the whole text as one word, and find the runs from there on that are long enough to be decoded."""
        self.words, self._starts, self._begins = self.plain, [0], [0]
        at = letters.find(_LONG_RUN, at)
        while at >= 0:
            self.runs.append(at)
            end = letters.find(0, at)
            at = letters.find(_LONG_RUN, end) if end >= 0 else end

    def _copy(self, telling: list[int]) -> None:
        """Copy the words that contain these runs."""
        plain, words = self.plain, self.data.translate(_IN_WORDS)
        parts: list[str] = []
        starts: list[int] = []
        done = 0
        for at in telling:
            if at < done:
                continue
            start = max(words.rfind(b" ", done, at) + 1 - _BEFORE, done)
            done = words.find(b" ", at)
            if done < 0:
                done = len(words)
            parts.append(plain[start:done])
            starts.append(start)
        self.words, self._starts = " ".join(parts), starts
        self._begins = list(accumulate((len(part) + 1 for part in parts), initial=0))  # one character is between two

    def place(self, at: int) -> int:
        """Return the position in the text of a position in `words`."""
        if self.words is self.plain:
            return at
        number = bisect_right(self._begins, at) - 1
        return self._starts[number] + at - self._begins[number]

    def in_words(self, at: int) -> int:
        """Return the position in `words` of a position in the text, or of the first word behind it."""
        if self.words is self.plain:
            return at
        number = bisect_right(self._starts, at) - 1
        if number < 0:
            return 0
        behind = self._begins[number + 1]
        return min(self._begins[number] + at - self._starts[number], behind)

    def string_end(self, at: int) -> int:
        """Return where the string of JSON ends that a position is in; where the text ends if no quote is behind it."""
        quote = self.data.find(b'"', at)
        while quote > at and self.data[quote - 1] == _BACKSLASH and _is_escaped(self.data, quote):
            quote = self.data.find(b'"', quote + 1)
        return quote if quote >= 0 else len(self.data)


_BACKSLASH = ord("\\")


def _is_escaped(data: bytes, at: int) -> bool:
    """Whether an odd number of backslashes is right before a position."""
    first, count = at, _FEW
    while count == _FEW:
        before = data[max(0, first - _FEW) : first]
        count = len(before) - len(before.rstrip(b"\\"))
        first -= count
    return (at - first) % 2 == 1


def _is_dense(words: int, size: int) -> bool:
    """Whether there are so many words for the size of a text that it is faster not to copy them."""
    return words * _SPARSE > size


MOST_CLOSE = 12


class Density:
    """Counts the places in a text that were examined, and forgets one in so many characters.

    More than twelve are left in hostile texts alone. In 160 MB of prose, code, logs and traffic at most four beginnings
    of keys are left of those that are closer than 16 characters, and three names of those that are closer than 24.
    """

    __slots__ = ("_at", "_close", "_count")

    def __init__(self, close: int) -> None:
        self._at = 0
        self._close = close
        self._count = 0.0

    def is_high(self, at: int) -> bool:
        """Count a place; return whether too many are close to it."""
        count = self._count - (at - self._at) / self._close
        self._at = at
        self._count = count + 1 if count > 0 else 1.0
        return self._count > MOST_CLOSE

    def masked_to(self, end: int, *, by_shape: bool) -> None:
        """Go on behind a mask. What was masked by its own shape does not count: a list of keys is no hostile text.

        The mask's length does not count either, so that the masked text is in no place denser than the text.
        """
        self._at = end
        self._count -= by_shape


class Beginnings:
    """Finds where the words of several groups may begin, by their first three letters, small or capital."""

    __slots__ = ("_tables",)

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        """At most eight groups of words; a question mark means any letter. No two groups have a word in common."""
        tables = [bytearray(256) for _ in range(3)]
        for number, group in enumerate(groups):
            for letters in group:
                for table, letter in zip(tables, letters, strict=True):
                    for code in range(256) if letter == "?" else (ord(letter), ord(letter.upper())):
                        table[code] |= 1 << number
        self._tables = tuple(map(bytes, tables))

    def places(self, data: bytes) -> list[int]:
        """Return where in a text a word may begin, in order."""
        first, second, third = self._tables
        from_bytes = int.from_bytes
        places: list[int] = []
        for begin in range(0, len(data), _BLOCK):
            end = begin + _BLOCK
            found = from_bytes(data[begin:end].translate(first), "little")
            found &= from_bytes(data[begin + 1 : end + 1].translate(second), "little")
            found &= from_bytes(data[begin + 2 : end + 2].translate(third), "little")
            if found:
                marks = found.to_bytes(min(_BLOCK, len(data) - begin), "little").translate(_IS_MARKED)
                places += [begin + one.start() for one in _MARKED.finditer(marks)]
        return places


_IS_MARKED = b"\0" + b"\1" * 255
_MARKED = re.compile(b"\1")
