"""Finds one text in other texts, however it is written there: as it is, with escapes of JSON or Python, in a URL, or in
base64.

Escapes may be mixed, and JSON may be in a string of JSON any number of times. In base64 the text is found at each of
its three alignments, also in the middle of a file, and is replaced there, so that the rest of the file stays.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from trace_recorder.storage.text_edits import Edit

Span = tuple[int, int]

SHORTEST = 3
"""A text with fewer characters is in nearly every other text."""
_SHORTEST_IN_BASE64 = 6
"""A shorter text, in bytes, may be in base64 by chance. It is found in words that encode a text (`encodings.py`)."""
_LONGEST_PATTERN = 256
"""Of a longer text, only its beginning is searched by a pattern. The rest is then compared character by character."""
_SHORT_IN_OPAQUE, _OPAQUE_LETTERS = 8, 256
"""A text of fewer characters is not looked for in a run of at least this many letters of base64, such as an image."""
_ESCAPES = re.compile(r"[\\%+]")
_LETTER_ESCAPES = ("\\u00", "\\x", "\\U", "%")
"""The beginnings of the escapes that letters and digits may have, which need none."""
_WORD = re.compile(r"[A-Za-z0-9]+")
_SHORTEST_TRACE = 3
_LETTERS = "A-Za-z0-9+/_-"
_RUN_END = re.compile(r"[^A-Za-z0-9+/=]")
_SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_BACKSLASHES = r"\\\\{0,16}"
"""Matches the backslashes before an escape. Each level of JSON doubles them."""
_FOR_URLS = str.maketrans("+/", "-_")
_STANDARD = str.maketrans("-_", "+/")


class SpelledText:
    """A text, and the ways in which other texts may spell it."""

    def __init__(self, text: str) -> None:
        self.text = text
        forms = {text, text.replace("\r\n", "\n"), text.replace("\n", "\r\n").replace("\r\r", "\r")}
        forms |= {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}
        self.forms = sorted(forms, key=lambda form: (-len(form), form))
        self._bytes = [form.encode("utf-8", "surrogatepass") for form in self.forms]

    @cached_property
    def _traces(self) -> list[str]:
        """The longest word of each form, which is the same in each spelling without escapes of letters."""
        return [max(_WORD.findall(form), key=len, default="") for form in self.forms]

    @property
    def is_short(self) -> bool:
        """Whether base64 may have the text by chance."""
        return len(self._bytes[-1]) < _SHORTEST_IN_BASE64

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The pattern of the beginning of each form, which is a group of its own."""
        return re.compile(
            "|".join(f"({''.join(map(_spelled, _units(form)[:_LONGEST_PATTERN]))})" for form in self.forms)
        )

    def spans(self, text: str) -> Iterator[Span]:
        """Yield where a text has this text with any escapes, in no order. Two spans may overlap."""
        for start, end in self._all_spans(text):
            if end - start >= _SHORT_IN_OPAQUE or not _is_opaque(text, start, end):
                yield start, end

    def _all_spans(self, text: str) -> Iterator[Span]:
        if _ESCAPES.search(text) is None:
            for form in self.forms:
                start = text.find(form)
                while start >= 0:
                    yield start, start + len(form)
                    start = text.find(form, start + len(form))
            return
        if not any(map(text.__contains__, _LETTER_ESCAPES)) and not any(
            len(trace) < _SHORTEST_TRACE or trace in text for trace in self._traces
        ):
            return  # this is quicker than a search for the pattern
        for match in self._pattern.finditer(text):
            end = self._end_of_long(text, match)
            if end is not None:
                yield match.start(), end

    def _end_of_long(self, text: str, match: re.Match[str]) -> int | None:
        """Return where a form ends whose beginning has matched, or None if the text goes on differently."""
        position = match.end()
        for unit in _units(self.forms[(match.lastindex or 1) - 1])[_LONGEST_PATTERN:]:
            found = _pattern_of(unit).match(text, position)
            if found is None:
                return None
            position = found.end()
        return position

    # ── base64 ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _cores(self) -> list[tuple[str, int, bytes]]:
        """The letters of base64 that do not depend on the bytes around the text, with its alignment and its bytes."""
        cores = []
        for data in self._bytes:
            if len(data) < _SHORTEST_IN_BASE64:
                continue
            for offset in range(3):
                letters = base64.b64encode(b"\0" * offset + data).decode()
                core = letters[(8 * offset + 5) // 6 : 8 * (offset + len(data)) // 6]
                cores += [(spelled, offset, data) for spelled in {core, core.translate(_FOR_URLS)}]
        return cores

    def may_be_in_base64(self, text: str) -> bool:
        """Return whether a text has letters that encode this text."""
        return any(core in text for core, _, _ in self._cores)

    def in_base64(self, text: str, mask: Callable[[int], bytes]) -> Iterator[Edit]:
        """Yield the edits that replace this text where it is encoded in base64.

        `mask` gets a number of bytes, and returns new bytes whose number has the same remainder by three.
        """
        for core, offset, data in self._cores:
            position = text.find(core)
            while position >= 0:
                edit = _edit_in_base64(text, position - (8 * offset + 5) // 6, offset, data, mask)
                if edit is not None:
                    yield edit
                position = text.find(core, position + 1)


def _edit_in_base64(text: str, begin: int, offset: int, data: bytes, mask: Callable[[int], bytes]) -> Edit | None:
    """Return the edit of the groups of four letters that begin at `begin`, or None if they do not encode the bytes."""
    if begin < 0:
        return None
    groups = -(-(offset + len(data)) // 3)
    word = re.compile(f"[{_LETTERS}]{{2,{4 * groups}}}").match(text, begin)
    if word is None:
        return None
    letters = word[0]
    try:
        raw = base64.b64decode(letters.translate(_STANDARD) + "A" * (-len(letters) % 4))[: len(letters) * 6 // 8]
    except binascii.Error:
        return None
    if raw[offset : offset + len(data)] != data:
        return None
    new = raw[:offset] + mask(len(data)) + raw[offset + len(data) :]
    encoded = base64.b64encode(new).decode().rstrip("=")
    if "-" in letters or "_" in letters:
        encoded = encoded.translate(_FOR_URLS)
    return Edit(begin, word.end(), encoded)


def _is_opaque(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text is inside a long run of letters of base64."""
    behind = _RUN_END.search(text, end, end + _OPAQUE_LETTERS)
    after = behind.start() if behind is not None else min(len(text), end + _OPAQUE_LETTERS)
    first = max(0, start - _OPAQUE_LETTERS)
    before = re.search(r"[A-Za-z0-9+/=]*\Z", text[first:start])
    if before is None:
        return False
    return len(before[0]) + after - start >= _OPAQUE_LETTERS


# ── the spellings of one character ───────────────────────────────────────────────────────────────────────────────────


def _units(text: str) -> list[str]:
    """Return the characters of a text, with backslashes that follow each other as one unit."""
    return re.findall(r"\\+|[^\\]", text, re.DOTALL)


@lru_cache(maxsize=4096)
def _pattern_of(unit: str) -> re.Pattern[str]:
    return re.compile(_spelled(unit))


def _spelled(character: str) -> str:
    """Return a pattern of all ways in which a character, or several backslashes, may be written.

    Each alternative begins with one certain character, so that the search for a pattern is quick.
    """
    if character[0] == "\\":
        count = len(character)
        return rf"(?:\\{{{count},{16 * count}}}|(?:%(?:25)*5[cC]){{{count}}}|(?:\\\\{{0,16}}u005[cC]){{{count}}})"
    units, data = character.encode("utf-16-be", "surrogatepass").hex(), character.encode("utf-8", "surrogatepass")
    alternatives = [
        re.escape(character),
        "".join(_hexadecimal(f"{_BACKSLASHES}u", units[at : at + 4]) for at in range(0, len(units), 4)),
        _hexadecimal(f"{_BACKSLASHES}U", f"{ord(character):08x}"),
        "".join(_hexadecimal("%(?:25)*", f"{byte:02x}") for byte in data),
    ]
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        alternatives.append(_BACKSLASHES + short)
    if character in "\"'/":
        alternatives.append(_BACKSLASHES + re.escape(character))
    if character == " ":
        alternatives.append(r"\+")
    alternatives += _python_escapes(character)
    return f"(?:{'|'.join(alternatives)})"


def _python_escapes(character: str) -> Iterator[str]:
    if ord(character) < 256:
        yield _hexadecimal(f"{_BACKSLASHES}x", f"{ord(character):02x}")
    data = character.encode("utf-8", "surrogatepass")
    if len(data) > 1:
        yield "".join(_hexadecimal(f"{_BACKSLASHES}x", f"{byte:02x}") for byte in data)


def _hexadecimal(begin: str, digits: str) -> str:
    """Return a pattern of hexadecimal digits in both cases after the pattern `begin`."""
    return begin + "".join(f"[{digit}{digit.upper()}]" for digit in digits)
