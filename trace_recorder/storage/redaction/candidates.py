"""A fast first search of a text, for the words that may contain a key and the positions of possible names of secrets.

A key has a long run of letters and digits that are not all small letters. Few words of prose or code have such a run.
Only these words are copied, and searched by `key_finder.py` and `known_values.py`. This costs a fraction of searching
the whole text. Possible names of secrets are found by three of their letters (`Beginnings`). Both searches test all
positions of a text at once. The text becomes one large integer with a byte for each character, so that a shift and an
"and" compare each character with its neighbours. Invariant: each word is copied once, whole, and with the text right
before it. `Density` finds the places where a text has so many possible secrets that the text is hostile. At such a
place, a part of the text is masked as one secret.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from trace_recorder.storage.redaction.json_strings import BETWEEN, TEXT_END

SHORTEST = 12
"""A key has a run of at least this many letters, digits, hyphens and the like."""
ENCODED = 24
"""A word in base64 is decoded if it has at least this many characters."""
_BEFORE = 8
"""This many characters before a word are copied too. They decide whether a key may begin where the word begins."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_IN_RUNS = bytes((code in _LETTERS) for code in range(256))
_IS_TELLING = bytes((chr(code) in string.ascii_uppercase + string.digits) for code in range(256))
"""Capitals and digits. A run of small letters alone, such as the name of a member, is neither a key nor base64."""
_IN_WORDS = bytes(ord("w") if code in _LETTERS + b".=~:|@%" else ord(" ") for code in range(256))
_RUN, _LONG_RUN = b"\1" * SHORTEST, b"\1" * ENCODED
_BLOCK = 1 << 15
"""This many characters become one integer and are searched together. A larger integer costs more per character."""
_FEW, _SPARSE, _CHECKED = 16, 150, 256
"""A text with more than one possible key in `_SPARSE` characters, on average, is searched whole.

Otherwise, and always for fewer than `_FEW` possible keys, the words of the possible keys are copied. This is decided
after every `_CHECKED` possible keys, and at the end.
"""


class PreparedText:
    """A text that is prepared for the search: its bytes, the beginnings of its long runs, and its possible keys.

    `data` has one byte for each character. `words` has the words that may contain a key. A run or a key
    has a capital or a digit.
    """

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
                self._find_runs(letters, at)

    def _find_runs(self, letters: bytes, position: int) -> None:
        """Find long runs of letters and digits from a position on, and copy the words that may contain a key.

        `letters` has a 1 for each character of such a run.
        """
        find, find_telling = letters.find, self.data.translate(_IS_TELLING).find
        telling: list[int] = []
        while position >= 0:
            end = find(0, position + SHORTEST)
            if end < 0:
                end = len(letters)
            if find_telling(1, position, end) >= 0:
                telling.append(position)
                if end - position >= ENCODED:
                    self.runs.append(position)
                if len(telling) % _CHECKED == 0 and _is_dense(len(telling), end):
                    self._take_whole(letters, end)
                    return
            position = find(_RUN, end)
        if len(telling) >= _FEW and _is_dense(len(telling), len(letters)):
            self.words, self._starts, self._begins = self.plain, [0], [0]
        elif telling:
            self._copy(telling)

    def _take_whole(self, letters: bytes, position: int) -> None:
        """Take the whole text as one word. From the position on, find only the runs that are long enough to decode."""
        self.words, self._starts, self._begins = self.plain, [0], [0]
        find_telling = self.data.translate(_IS_TELLING).find
        position = letters.find(_LONG_RUN, position)
        while position >= 0:
            end = letters.find(0, position)
            if find_telling(1, position, end if end >= 0 else len(letters)) >= 0:
                self.runs.append(position)
            position = letters.find(_LONG_RUN, end) if end >= 0 else end

    def _copy(self, telling: list[int]) -> None:
        """Copy the words that contain the runs at these positions."""
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
        self._begins = list(accumulate((len(part) + 1 for part in parts), initial=0))  # one space is between two words

    def place(self, position: int) -> int:
        """Convert a position in `words` to the position in the text."""
        if self.words is self.plain:
            return position
        number = bisect_right(self._begins, position) - 1
        return self._starts[number] + position - self._begins[number]

    def in_words(self, position: int) -> int:
        """Convert a position in the text to the position in `words`, or to that of the first word after it."""
        if self.words is self.plain:
            return position
        number = bisect_right(self._starts, position) - 1
        if number < 0:
            return 0
        behind = self._begins[number + 1]
        return min(self._begins[number] + position - self._starts[number], behind)


def _is_dense(words: int, size: int) -> bool:
    """Return whether a text has so many possible keys that searching all of it is faster than copying their words."""
    return words * _SPARSE > size


MOST_CLOSE = 12
CLOSE_KEYS, CLOSE_NAMES = 20, 40
"""Two beginnings of keys are close to each other if they have fewer than `CLOSE_KEYS` characters between them.

`CLOSE_NAMES` is the same limit for names and flags.
"""


class Density:
    """A count of the examined positions in a text. Each `close` characters between them subtract one.

    Only in hostile texts does the count exceed twelve. In 25,723 files (250 MB) of packages and documents, the count
    reaches at most four for beginnings of keys, and three for names.
    """

    __slots__ = ("_at", "_close", "_count", "is_dense")

    def __init__(self, close: int) -> None:
        self._at = 0
        self._close = close
        self._count = 0.0
        self.is_dense = False

    def is_high(self, position: int) -> bool:
        """Count a position, and return whether too many counted positions are close to it."""
        count = self._count - (position - self._at) / self._close
        self._at = position
        self._count = count + 1 if count > 0 else 1.0
        self.is_dense = self._count > MOST_CLOSE
        return self.is_dense

    def masked_to(self, end: int) -> None:
        """Continue after a mask.

        A mask is shorter than most secrets, so examined positions are closer together in the masked text. Count at most
        `close` characters, about the length of a mask, as the distance that the masked part adds.
        """
        self._at = max(self._at, end - self._close)


MANY, _CLOSE_STRINGS = 32, 128
"""If `MANY` strings of JSON that are close together may have a secret, all strings are searched.

Strings are close together if there are fewer than `_CLOSE_STRINGS` characters, on average, from one possible secret to
the next.
"""


def are_many(places: list[int]) -> bool:
    """Return whether the last `MANY` of these positions are close together.

    Each position is in a different string of JSON.
    """
    return len(places) >= MANY and places[-1] - places[-MANY] < MANY * _CLOSE_STRINGS


_DENSE_PART = re.compile(r"[^\"\\]{0,200}+[^\"\\\f\n]{0,200}+[A-Za-z0-9+/_.=~:|@%!-]*+")
_LAST_NAME = re.compile(
    r"(?: {0,3}[A-Za-z-]{3,20})?[ \t]{0,20}+(?:[:=>,]{1,2}|si|saw)?[ \t]{0,20}+['`\]]{0,2}[A-Za-z_-]{0,14}"
    r"(?:ssap|wp|terces|nekot|yek|htua|derc|gis|eikooc)[A-Za-z_.-]{0,30}(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
"""The name of a secret at the end of a reversed text, with its separator and a word such as "Bearer"."""
_LONGEST_NAME = 80


def dense_end(text: str, position: int) -> int:
    """Return the end of a dense part that is masked as one secret: some hundred characters on, or before a quote.

    If the name of a secret is right before that end, the part ends before the name, because the secret follows.
    """
    part = _DENSE_PART.match(text, position)
    end = part.end() if part else position
    text_end = text.rfind(TEXT_END, max(position, end - len(BETWEEN)), end)
    end = end if text_end < 0 else text_end
    name = _LAST_NAME.match(text[max(position, end - _LONGEST_NAME) : end][::-1])
    return end - name.end() if name and end - name.end() > position else end


def mask_dense(text: str, start: int, end: int, mask: str) -> str:
    """Return the mask of a part of a text.

    If the part covers several texts that are searched together, each of them gets a mask.
    """
    return mask + (BETWEEN + mask) * text.count(BETWEEN, start, end)


class Beginnings:
    """A search for the beginnings of words of several groups, by their first three letters, small or capital."""

    __slots__ = ("_tables",)

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        """Take at most eight groups of words. A question mark means any letter. No two groups have a word in common."""
        tables = [bytearray(256) for _ in range(3)]
        for number, group in enumerate(groups):
            for letters in group:
                for table, letter in zip(tables, letters, strict=True):
                    for code in range(256) if letter == "?" else (ord(letter), ord(letter.upper())):
                        table[code] |= 1 << number
        self._tables = tuple(map(bytes, tables))

    def places(self, data: bytes) -> list[int]:
        """Return the positions in a text at which a word may begin, in order."""
        first, second, third = self._tables
        from_bytes = int.from_bytes
        places: list[int] = []
        for begin in range(0, len(data), _BLOCK):
            end = begin + _BLOCK
            bits = from_bytes(data[begin:end].translate(first), "little")
            bits &= from_bytes(data[begin + 1 : end + 1].translate(second), "little")
            bits &= from_bytes(data[begin + 2 : end + 2].translate(third), "little")
            if bits:
                marks = bits.to_bytes(min(_BLOCK, len(data) - begin), "little").translate(_IS_MARKED)
                places += [begin + mark.start() for mark in _MARKED.finditer(marks)]
        return places


_IS_MARKED = b"\0" + b"\1" * 255
_MARKED = re.compile(b"\1")


# ── long runs of base64 ──────────────────────────────────────────────────────────────────────────────────────────────

LONGEST_ENCODED = 8192
"""Longer words in base64 are not decoded, because they are images, audio or files."""
KEPT = 1200
"""At least this many characters at each end of a run are searched."""
STEP = 1024
"""The distance between the positions at which a long run is looked for."""

_LONG_BASE64 = re.compile(rf"[A-Za-z0-9+/]{{{LONGEST_ENCODED},}}+")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text without the middles of its long runs: where each part begins, and how much was left out before it."""

    text: str
    begins: list[int]
    removed: list[int]

    def places(self, places: list[int]) -> list[int]:
        """Convert positions in the shortened text to positions in the whole text."""
        return [at + self.removed[bisect_right(self.begins, at)] for at in places]


def shorten(text: str) -> Shortened | None:
    """Leave out the middle of each long run of base64 characters in a text. Return None if the text has no such run."""
    parts: list[str] = []
    removed: list[int] = []
    done, position, size = 0, STEP, len(text)
    while position < size:
        run = _LONG_BASE64.match(text, position)
        if run is None:
            position += STEP
            continue
        start, end = position + KEPT, run.end() - KEPT
        parts.append(text[done:start])
        removed.append(end - start)
        done, position = end, run.end() + 1
    if not parts:
        return None
    begins = list(accumulate(map(len, parts)))
    return Shortened("".join([*parts, text[done:]]), begins, list(accumulate(removed, initial=0)))
