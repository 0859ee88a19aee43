"""A fast first search of a text, for words that may contain a key, and for names that a secret may follow.

A key contains a run: at least twelve letters, digits, hyphens and the like, which are not all small letters. Few words
of prose or code contain a run. `PreparedText` copies these words, and only the copies are searched for keys. This costs
a fraction of searching the whole text. Invariant: each such word is copied once, whole, and with the text right before
it. `Beginnings` finds possible names of secrets by their first three letters. It tests all positions of a block of text
together, as one large integer. `Density` finds where a hostile text has so many possible secrets close together that
examining each would take too long. Then a part of the text is masked as one secret. Such a part is called a dense part.
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
"""A run in a key has at least this many characters of `_LETTERS`."""
ENCODED = 24
"""A word in base64 is decoded only if its run has at least this many characters."""
_BEFORE = 8
"""With each word, this many characters before the word are copied too.

These characters decide whether a key may begin where the word begins.
"""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_IN_RUNS = bytes((code in _LETTERS) for code in range(256))
_IS_CAPITAL = bytes((chr(code) in string.ascii_uppercase + string.digits) for code in range(256))
"""Marks capitals and digits.

Each run has at least one of these characters. Small letters alone, as in the name of a member, are neither a key nor
base64.
"""
_IN_WORDS = bytes(ord("w") if code in _LETTERS + b".=~:|@%" else ord(" ") for code in range(256))
_RUN, _LONG_RUN = b"\1" * SHORTEST, b"\1" * ENCODED
_BLOCK = 1 << 15
"""A text is searched in blocks of this many characters.

Each block becomes one integer. A larger integer costs more per character.
"""
_FEW, _SPARSE, _CHECKED = 16, 150, 256
"""A text is searched whole if it has more than one run in `_SPARSE` characters, on average.

Otherwise the words that contain runs are copied. If a text has fewer than `_FEW` runs, the words are copied too. The
choice is made after every `_CHECKED` runs, and at the end of the text.
"""


class PreparedText:
    """A text that is prepared for the search.

    `data` has the text with one byte for each character, and `plain` has these bytes as a string. `runs` has the
    positions of the runs that are long enough for base64. `words` has the words that contain a run, with a space
    between two words, or the whole text.
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
        """Find the runs from a position on, and copy the words that contain them.

        `letters` has a 1 for each character of the text that may be in a run, and a 0 for any other.
        """
        find, find_capital = letters.find, self.data.translate(_IS_CAPITAL).find
        run_starts: list[int] = []
        while position >= 0:
            end = find(0, position + SHORTEST)
            if end < 0:
                end = len(letters)
            if find_capital(1, position, end) >= 0:
                run_starts.append(position)
                if end - position >= ENCODED:
                    self.runs.append(position)
                if len(run_starts) % _CHECKED == 0 and _is_dense(len(run_starts), end):
                    self._take_whole(letters, end)
                    return
            position = find(_RUN, end)
        if len(run_starts) >= _FEW and _is_dense(len(run_starts), len(letters)):
            self.words, self._starts, self._begins = self.plain, [0], [0]
        elif run_starts:
            self._copy(run_starts)

    def _take_whole(self, letters: bytes, position: int) -> None:
        """Use the whole text as `words`. From the position on, find only the runs that are long enough for base64."""
        self.words, self._starts, self._begins = self.plain, [0], [0]
        find_capital = self.data.translate(_IS_CAPITAL).find
        position = letters.find(_LONG_RUN, position)
        while position >= 0:
            end = letters.find(0, position)
            if find_capital(1, position, end if end >= 0 else len(letters)) >= 0:
                self.runs.append(position)
            position = letters.find(_LONG_RUN, end) if end >= 0 else end

    def _copy(self, run_starts: list[int]) -> None:
        """Copy the words that contain the runs at these positions to `words`."""
        plain, words = self.plain, self.data.translate(_IN_WORDS)
        parts: list[str] = []
        starts: list[int] = []
        done = 0
        for at in run_starts:
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

    def position_in_text(self, position: int) -> int:
        """Convert a position in `words` to the position in the text."""
        if self.words is self.plain:
            return position
        number = bisect_right(self._begins, position) - 1
        return self._starts[number] + position - self._begins[number]

    def position_in_words(self, position: int) -> int:
        """Convert a position in the text to a position in `words`.

        If the character there was not copied, return the beginning of the next word.
        """
        if self.words is self.plain:
            return position
        number = bisect_right(self._starts, position) - 1
        if number < 0:
            return 0
        behind = self._begins[number + 1]
        return min(self._begins[number] + position - self._starts[number], behind)


def _is_dense(runs: int, size: int) -> bool:
    """Return whether a text has so many runs that searching all of it is faster than copying words."""
    return runs * _SPARSE > size


MOST_CLOSE = 12
CLOSE_KEYS, CLOSE_NAMES = 20, 40
"""Two beginnings of keys are close to each other if there are fewer than `CLOSE_KEYS` characters between them.

`CLOSE_NAMES` is the same limit for two names of secrets, and for two flags of commands.
"""


class Density:
    """Tells whether the positions that a search has examined are too close together.

    It counts the examined positions, and subtracts one from the count for each `close` characters between them. The
    count exceeds `MOST_CLOSE` only in hostile texts. In 25,723 files (250 MB) of packages and documents, the count is
    at most four for beginnings of keys, and three for names.
    """

    __slots__ = ("_at", "_close", "_count", "is_dense")

    def __init__(self, close: int) -> None:
        self._at = 0
        self._close = close
        self._count = 0.0
        self.is_dense = False

    def add(self, position: int) -> bool:
        """Count a position. Return whether too many examined positions are close together here."""
        count = self._count - (position - self._at) / self._close
        self._at = position
        self._count = count + 1 if count > 0 else 1.0
        self.is_dense = self._count > MOST_CLOSE
        return self.is_dense

    def continue_after_mask(self, end: int) -> None:
        """Continue at the end of a secret that will be masked.

        Only the last `close` characters of the secret count as distance, about the length of a mask. Therefore the
        masked text is not denser than this count says.
        """
        self._at = max(self._at, end - self._close)


MANY, _CLOSE_STRINGS = 32, 128
"""If `MANY` possible secrets are close together, each in another string of JSON, all strings of the text are searched.

Possible secrets are close together if the distance from one to the next is less than `_CLOSE_STRINGS` characters on
average.
"""


def are_close(positions: list[int]) -> bool:
    """Return whether the last `MANY` positions are less than `_CLOSE_STRINGS` characters apart on average."""
    return len(positions) >= MANY and positions[-1] - positions[-MANY] < MANY * _CLOSE_STRINGS


_DENSE_PART = re.compile(r"[^\"\\]{0,200}+[^\"\\\f\n]{0,200}+[A-Za-z0-9+/_.=~:|@%!-]*+")
_LAST_NAME = re.compile(
    r"(?: {0,3}[A-Za-z-]{3,20})?[ \t]{0,20}+(?:[:=>,]{1,2}|si|saw)?[ \t]{0,20}+['`\]]{0,2}[A-Za-z_-]{0,14}"
    r"(?:ssap|wp|terces|nekot|yek|htua|derc|gis|eikooc)[A-Za-z_.-]{0,30}(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
"""Matches, at the beginning of a reversed text, the reversed name of a secret.

The separator after the name and a word such as "Bearer" are matched too: `reraeB :nekot` for `token: Bearer`.
"""
_LONGEST_NAME = 80


def dense_end(text: str, position: int) -> int:
    """Return the end of the dense part that begins at or before a position.

    The part is masked as one secret. The part ends before the next quote or backslash, or else at the end of a word
    after 400 characters. If the part would end with the name of a secret, the part ends before that name, so that the
    value after the name is masked too.
    """
    part = _DENSE_PART.match(text, position)
    end = part.end() if part else position
    text_end = text.rfind(TEXT_END, max(position, end - len(BETWEEN)), end)
    end = end if text_end < 0 else text_end
    name = _LAST_NAME.match(text[max(position, end - _LONGEST_NAME) : end][::-1])
    return end - name.end() if name and end - name.end() > position else end


def mask_of_part(text: str, start: int, end: int, mask: str) -> str:
    """Return the text that replaces a secret from `start` to `end`: the mask.

    If the secret extends over texts that are searched together, return a mask for each of these texts.
    """
    return mask + (BETWEEN + mask) * text.count(BETWEEN, start, end)


class Beginnings:
    """A search for the first three letters of words, small or capital, at all positions of a text."""

    __slots__ = ("_tables",)

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        """Take at most eight groups of three letters each, such as ["tok", "log"].

        A question mark means any letter. A position is found too if its letters are from different beginnings of one
        group, such as "tog".
        """
        tables = [bytearray(256) for _ in range(3)]
        for number, group in enumerate(groups):
            for letters in group:
                for table, letter in zip(tables, letters, strict=True):
                    for code in range(256) if letter == "?" else (ord(letter), ord(letter.upper())):
                        table[code] |= 1 << number
        self._tables = tuple(map(bytes, tables))

    def positions(self, data: bytes) -> list[int]:
        """Return, in order, the positions in the bytes of a text at which one of the words may begin."""
        first, second, third = self._tables
        from_bytes = int.from_bytes
        positions: list[int] = []
        for begin in range(0, len(data), _BLOCK):
            end = begin + _BLOCK
            bits = from_bytes(data[begin:end].translate(first), "little")
            bits &= from_bytes(data[begin + 1 : end + 1].translate(second), "little")
            bits &= from_bytes(data[begin + 2 : end + 2].translate(third), "little")
            if bits:
                marks = bits.to_bytes(min(_BLOCK, len(data) - begin), "little").translate(_IS_MARKED)
                positions += [begin + mark.start() for mark in _MARKED.finditer(marks)]
        return positions


_IS_MARKED = b"\0" + b"\1" * 255
_MARKED = re.compile(b"\1")


# ── long runs of base64 ──────────────────────────────────────────────────────────────────────────────────────────────

LONGEST_ENCODED = 8192
"""Words in base64 with more characters than this are not decoded, because they are images, audio or files."""
KEPT = 1200
"""At least this many characters at each end of a long run of base64 are searched for secrets."""
STEP = 1024
"""A text is tested for a long run of base64 at positions that are this far apart."""

_LONG_BASE64 = re.compile(rf"[A-Za-z0-9+/]{{{LONGEST_ENCODED},}}+")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text without the middles of its long runs of base64.

    `begins` has the position in `text` at which each part after a middle begins. `removed` has how many characters of
    the whole text were left out before each part.
    """

    text: str
    begins: list[int]
    removed: list[int]

    def positions(self, positions: list[int]) -> list[int]:
        """Convert positions in the shortened text to positions in the whole text."""
        return [at + self.removed[bisect_right(self.begins, at)] for at in positions]


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
