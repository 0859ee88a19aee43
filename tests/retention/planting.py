"""Plants a text into every text of a journal, in one of the ways in which a text may be spelled.

The planted journal is written by the code that also redacts: so the same journal with the masks planted is what a
redaction must make of it, byte for byte.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from urllib.parse import quote, quote_plus

from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.rewritten_journal import RewrittenJournal
from trace_recorder.storage.text_edits import Edit, TextPlace, edit_json

TEXT = 'Jörg O\'Neil, "JO" 12/3\t\U0001f600 é'
MASK = "[REDACTED:removed]"
Spell = Callable[[str], str]


def in_base64(text: str) -> str:
    """Return a text in base64, with other words around it. A mask gets as many blanks as the text requires."""
    data = text.encode()
    if text == MASK:
        data += b" " * ((len(TEXT.encode()) - len(data)) % 3)
    return f" {base64.b64encode(b'xx' + data + b'yyy').decode()} "


def _mask_is_plain(spell: Spell) -> Spell:
    return lambda text: text if text == MASK else spell(text)


def _every_escape(text: str) -> str:
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4].upper()}" for at in range(0, len(units), 4))


SPELLINGS: dict[str, Spell] = {
    "plain": _mask_is_plain(str),
    "JSON": _mask_is_plain(lambda text: json.dumps(text)[1:-1]),
    "JSON in JSON": _mask_is_plain(lambda text: json.dumps(json.dumps(text))[1:-1].strip('\\"')),
    "unescaped JSON": _mask_is_plain(lambda text: json.dumps(text, ensure_ascii=False)[1:-1]),
    "escapes of each character": _mask_is_plain(_every_escape),
    "repr": _mask_is_plain(lambda text: repr(text)[1:-1]),
    "repr of bytes": _mask_is_plain(lambda text: repr(text.encode())[2:-1]),
    "ascii": _mask_is_plain(lambda text: ascii(text)[1:-1]),
    "URL": _mask_is_plain(quote),
    "parameter of a URL": _mask_is_plain(quote_plus),
    "URL in small letters": _mask_is_plain(lambda text: re.sub("%..", lambda escape: escape[0].lower(), quote(text))),
    "URL in a URL": _mask_is_plain(lambda text: quote(quote(text))),
    "base64": in_base64,
    "base64 of URLs": lambda text: in_base64(text).replace("+", "-").replace("/", "_"),
}


class Planting:
    """A masker that plants a text into every text that is not a word of the format, after its first character."""

    numbers: dict[str, str] = {}  # noqa: RUF012 - never changed

    def __init__(self, text: str, spellings: Sequence[str] = tuple(SPELLINGS)) -> None:
        self._text = text
        self._spellings: Iterator[str] = cycle(spellings)
        self.planted = 0

    def may_change(self, _: str) -> bool:
        return True

    def edits(self, text: str, place: TextPlace) -> Sequence[Edit]:
        """Return the edit that plants the text. In a text that is JSON, it is planted into the strings of the JSON."""
        if not text or text in format_words():
            return ()
        if text[0] in "{[" and _is_json(text):
            return edit_json(text, place.kind, self, lambda _, __: False).edits
        self.planted += 1
        spelled = SPELLINGS[next(self._spellings)](self._text)
        if place.is_name:
            return [Edit(0, 1, f"{text[0]}{self._text}")]
        return [Edit(0, 1, f"{text[0]}{spelled}")]


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def plant(journal: Path, target: Path, text: str, spellings: Sequence[str] = tuple(SPELLINGS)) -> int:
    """Write a journal with a text planted everywhere. Return how many times it was planted."""
    planting = Planting(text, spellings)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"".join(RewrittenJournal(journal, planting).lines()))
    return planting.planted
