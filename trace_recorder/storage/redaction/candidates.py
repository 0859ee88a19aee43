"""A fast first search of a text: the words that may contain a key, and the places that may have the name of a secret.

A key has a long run of letters and digits, not of small letters alone; few words of prose or code have one. Only these
words are copied out and searched by `patterns.py` and `known_values.py`, which costs a fraction of searching the whole
text. Possible names of secrets are found by three of their letters (`Beginnings`). Both searches test all places of a
text at once: the text is one large integer, a byte a character, so that a shift and an "and" compare each character
with its neighbours. Invariant: a word is copied once, whole, and with the text right before it.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

SHORTEST = 12
"""A key has a run of at least this many letters, digits, hyphens and the like."""
ENCODED = 24
"""A word in base64 has at least this many if it is worth decoding."""
_BEFORE = 8
"""This many characters before a word are copied with it: they decide whether a key may begin where the word does."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_TELLING = (string.ascii_uppercase + string.digits).encode()
_IN_RUNS = bytes((code in _LETTERS) for code in range(256))
_IS_TELLING = bytes(code in _TELLING for code in range(256))
"""Capitals and digits: a run of small letters alone is no key."""
_IN_WORDS = bytes(ord("w") if code in _LETTERS + b".=~:|@%" else ord(" ") for code in range(256))
_RUN = b"\1" * SHORTEST
_BLOCK = 1 << 15
"""This many characters are searched together: larger integers cost more for each character."""
_LARGE = 1 << 12
"""In fewer characters than this, and where a run is longer than a block, the runs are examined one by one."""


_FEW, _SPARSE = 16, 150
"""A text with more than a few such words, and with one in this many characters, is not copied: it is one word."""


class Look:
    """A text, one byte a character so that positions are the same; where long runs begin in it; its possible keys."""

    __slots__ = ("_begins", "_starts", "data", "plain", "runs", "words")

    def __init__(self, text: str, *, runs: bool = True) -> None:
        self.data = text.encode("latin-1", "replace")
        self.plain = text if text.isascii() else self.data.decode("latin-1")
        self.runs: list[int] = []
        self.words = ""
        if runs:
            letters = self.data.translate(_IN_RUNS)
            if letters.find(_RUN) >= 0:
                self._see(letters)

    def _see(self, letters: bytes) -> None:
        """Find the runs, and copy the words of possible keys; `letters` has a 1 for each character of a run."""
        telling: list[int] = []
        is_dense = False
        for begin, end in _blocks(letters):
            is_dense = is_dense or _is_dense(len(telling), begin)
            look = self._see_all if _LARGE <= end - begin <= 2 * _BLOCK else self._see_each
            telling += look(begin, letters[begin:end], is_asked=not is_dense)
        if is_dense or _is_dense(len(telling), len(self.data)):
            self.words, self._starts, self._begins = self.plain, [0], [0]
        elif telling:
            self._copy(telling)

    def _see_each(self, begin: int, block: bytes, *, is_asked: bool) -> list[int]:
        """Return the runs of possible keys if `is_asked`: one by one, which is faster in a text of a few words."""
        telling: list[int] = []
        at = block.find(_RUN)
        while at >= 0:
            end = block.find(0, at)
            end = end if end >= 0 else len(block)
            if end - at >= ENCODED:
                self.runs.append(begin + at)
            if is_asked and 1 in self.data[begin + at : begin + end].translate(_IS_TELLING):
                telling.append(begin + at)
            at = block.find(_RUN, end)
        return telling

    def _see_all(self, begin: int, block: bytes, *, is_asked: bool) -> list[int]:
        """Do the same for many words at once; return one position in each run."""
        ones = int.from_bytes(block, "little")
        whole = _windows(ones)
        long = whole & (whole >> (8 * (ENCODED - SHORTEST)))
        if long:
            self.runs += [begin + at for at in _places(long ^ (long & (ones << 8)), len(block))]
        if not is_asked or not whole:
            return []
        some = int.from_bytes(self.data[begin : begin + len(block)].translate(_IS_TELLING), "little")
        return [begin + at for at in _first_places(whole & _in_windows(some), block)]

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
        self.words, self._starts, self._begins = " ".join(parts), starts, _begins(parts)

    def place(self, at: int) -> int:
        """Return the position in the text of a position in `words`."""
        number = bisect_right(self._begins, at) - 1
        return self._starts[number] + at - self._begins[number]


def _is_dense(words: int, size: int) -> bool:
    """Whether there are so many words for the size of a text that it is faster not to copy them."""
    return words >= _FEW and words * _SPARSE > size


def _blocks(letters: bytes) -> Iterator[tuple[int, int]]:
    """Yield parts that fit into a processor's cache; no run is cut."""
    begin = 0
    while begin < len(letters):
        end = letters.find(0, begin + _BLOCK)
        end = end if end >= 0 else len(letters)
        yield begin, end
        begin = end


def _windows(ones: int) -> int:
    """Return the positions from which a run is still long enough."""
    ones &= ones >> 8
    ones &= ones >> 16
    ones &= ones >> 32
    return ones & (ones >> (8 * (SHORTEST - 8)))


def _in_windows(ones: int) -> int:
    """Return the positions from which one of these follows within the shortest length of a run."""
    ones |= ones >> 8
    ones |= ones >> 16
    ones |= ones >> 32
    return ones | (ones >> (8 * (SHORTEST - 8)))


def _places(marked: int, size: int) -> Iterator[int]:
    """Yield the positions of the bytes that are 1."""
    marks = marked.to_bytes(size, "little")
    at = marks.find(1)
    while at >= 0:
        yield at
        at = marks.find(1, at + 1)


def _first_places(marked: int, block: bytes) -> Iterator[int]:
    """Yield the first position in each run of a block that has a 1."""
    marks = marked.to_bytes(len(block), "little")
    at = marks.find(1)
    while at >= 0:
        yield at
        end = block.find(0, at)
        at = marks.find(1, end) if end >= 0 else end


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

    def places(self, data: bytes) -> list[tuple[int, int]]:
        """Return the groups' numbers, and where in a text a word of each may begin."""
        first, second, third = self._tables
        places: list[tuple[int, int]] = []
        for begin in range(0, len(data), _BLOCK):
            block = data[begin : begin + _BLOCK + 2]
            found = int.from_bytes(block.translate(first), "little")
            found &= int.from_bytes(block.translate(second), "little") >> 8
            found &= int.from_bytes(block.translate(third), "little") >> 16
            if found:
                places += _marked(found.to_bytes(len(block), "little"), begin)
        return places


def _marked(marks: bytes, begin: int) -> Iterator[tuple[int, int]]:
    """Yield the number of each bit that is set, and its position."""
    for number in range(8):
        at = marks.find(1 << number)
        while at >= 0:
            yield number, begin + at
            at = marks.find(1 << number, at + 1)


def _begins(parts: list[str]) -> list[int]:
    """Return where each part begins if they are joined with one character between them."""
    return list(accumulate((len(part) + 1 for part in parts), initial=0))
