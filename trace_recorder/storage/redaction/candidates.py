"""A first look at a text for all that looks for secrets: a byte a character, and the words in which a key may stand.

A key has a long run of letters and digits, and not of small letters alone; few words of prose or code have one. Only
these are copied out, so that what is asked of them (`patterns.py`, `known_values.py`) costs a part of what it
would cost of the whole text. Invariant: a word is copied whole, with what stands right before it, and once.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

SHORTEST = 12
"""A key has a run of so many letters, digits, hyphens and the like."""
ENCODED = 24
"""A word in base64 that is worth decoding has a run of so many."""
_BEFORE = 64
"""Of so many characters before a key's first long run its beginning is one, and what may stand before that."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_IN_RUNS = bytes(ord("w") if code in _LETTERS else ord(" ") for code in range(256))
_IN_WORDS = bytes(ord("w") if code in _LETTERS + b".=~:|@%" else ord(" ") for code in range(256))
_TELLING = bytes(ord("A") if chr(code) in string.ascii_uppercase + string.digits else ord("a") for code in range(256))
"""By which `islower` says that neither a capital nor a digit is there."""
_RUN = b"w" * SHORTEST


_FEW, _SPARSE = 16, 150
"""A text that has more than a few of such words, and one in so many characters, is not copied: it is one word."""


class Look:
    """A text, one byte a character so that places are the same; where long runs begin in it; and its telling words."""

    __slots__ = ("_begins", "_starts", "plain", "runs", "words")

    def __init__(self, text: str, *, runs: bool = True) -> None:
        self.plain = plain(text)
        self.runs: list[int] = []
        self.words = ""
        if runs:
            data = self.plain.encode("latin-1")
            letters = data.translate(_IN_RUNS)
            at = letters.find(_RUN)
            if at >= 0:
                self._copy(data, letters, at)

    def _copy(self, data: bytes, letters: bytes, at: int) -> None:
        plain, find, in_words = self.plain, letters.find, b""
        telling = data.translate(_TELLING)
        parts: list[str] = []
        starts: list[int] = []
        done = 0
        while at >= 0:
            end = find(b" ", at)
            if end < 0:
                end = len(data)
            if end - at >= ENCODED:
                self.runs.append(at)
            if at >= done and not telling[at:end].islower():
                in_words = in_words or data.translate(_IN_WORDS)
                start = done if at - done < _BEFORE else at - _BEFORE
                done = in_words.find(b" ", end)
                if done < 0:
                    done = len(data)
                parts.append(plain[start:done])
                starts.append(start)
                if len(parts) * _SPARSE > at and len(parts) >= _FEW:
                    self.runs += _runs(letters, end)
                    parts, starts = [plain], [0]
                    break
            at = find(_RUN, end)
        self.words, self._starts, self._begins = " ".join(parts), starts, _begins(parts)

    def place(self, at: int) -> int:
        """Where in the text stands what stands there in `words`."""
        number = bisect_right(self._begins, at) - 1
        return self._starts[number] + at - self._begins[number]


def _runs(letters: bytes, at: int) -> Iterator[int]:
    """Where from here on the runs are that are long enough to be decoded."""
    while (at := letters.find(b"w" * ENCODED, at)) >= 0:
        yield at
        at = letters.find(b" ", at)
        if at < 0:
            return


def plain(text: str) -> str:
    """A text with a question mark for each character that is not of Latin-1: `str` finds in it as fast as in ASCII."""
    return text if text.isascii() else text.encode("latin-1", "replace").decode("latin-1")


def lower(plain: str) -> str:
    """The same with the letters of ASCII small: many times as fast as `str.lower`."""
    return plain.encode("latin-1").lower().decode("latin-1")


def _begins(parts: list[str]) -> list[int]:
    """Where each part begins, where they stand together with one character between."""
    return list(accumulate((len(part) + 1 for part in parts), initial=0))
