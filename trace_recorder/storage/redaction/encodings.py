"""Masks secrets that are encoded in a text: in base64, or percent-encoded as in a URL.

A word that encodes a text is decoded, and searched like a text. All words of a text are searched together, because
beginning a search costs as much as searching hundreds of characters. Invariants: an encoding of anything else, such as
an image, a hash or a signature, is not decoded. Each word is searched once, up to a bounded length.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.first_look import LONGEST_ENCODED, OF_TEXT, Look
from trace_recorder.storage.redaction.json_strings import BETWEEN, mask_together, string_end

_WORD = re.compile(rf"{OF_TEXT.pattern.decode()}[A-Za-z0-9+/_-]{{0,{LONGEST_ENCODED}}}+={{0,2}}")
_ESCAPED = re.compile(rf"(?>(?:[A-Za-z0-9._~+*-]|%[0-9A-Fa-f]{{2}}){{8,{LONGEST_ENCODED}}})")
_IN_ESCAPED = bytes(
    ord("w") if chr(code) in string.ascii_letters + string.digits + "._~+*-%" else 32 for code in range(256)
)
_ESCAPE = re.compile(r"%[2-7][0-9A-Fa-f]")
_ESCAPE_OF = tuple(f"%{code:02X}" for code in range(256))
_TO_QUOTE = re.compile(r"[^A-Za-z0-9_.~:\[\]-]+")
"""Matches the characters that are percent-encoded. Masks have no such characters, so masks stay readable."""

_MASK = "[REDACTED:encoded-secret]"

Span = tuple[int, int]
Mask = Callable[[str], str]


def possible_words(look: Look, has_secrets: Callable[[str], bool]) -> Iterator[int]:
    """Yield the positions of words in JSON text in which a secret may be encoded, at most one in each string.

    `has_secrets` returns whether a decoded text may have a secret.
    """
    text, done = look.text, 0
    for position in look.runs:
        if position >= done and _is_text(text, position):
            yield position
            done = string_end(text, position)
    escapes = [position for position, mark in look.marks if mark[0] == "%" and _ESCAPE.match(text, position)]
    if escapes and has_secrets(unquote(BETWEEN.join(_words_at(text, escapes)))):
        yield from escapes


def _words_at(text: str, positions: list[int]) -> Iterator[str]:
    """Yield the words of a text that contain one of these positions. Each consists of characters of a URL."""
    letters, end = text.encode("latin-1", "replace").translate(_IN_ESCAPED), 0
    for position in positions:
        if position >= end:
            start = letters.rfind(b" ", end, position) + 1 or end
            end = letters.find(b" ", position)
            end = len(text) if end < 0 else end
            yield text[start:end]


def _is_text(plain: str, position: int) -> bool:
    """Return whether the word at a position encodes a text.

    If a backslash is before the word, the first letter may belong to an escape, so the word may begin one letter later.
    """
    word = _WORD.match(plain, position)
    if word is not None and _text_of(word[0]) is not None:
        return True
    word = _WORD.match(plain, position + 1) if plain[position - 1 : position] == "\\" else None
    return word is not None and _text_of(word[0]) is not None


def mask_encoded(look: Look, mask: Mask) -> str:
    """Mask the words of a text in which a secret is encoded. `mask` masks a decoded text."""
    text = look.text
    masked = _in_urls(text, mask) if "%" in text else text
    return _in_base64(masked, look.runs if masked is text else Look(masked).runs, mask)


def _in_urls(text: str, mask: Mask) -> str:
    """Mask percent-encoded secrets. Words without a percent-encoded byte are not examined."""
    words = [word for word in _words_of_urls(text) if "%" in word[0]]
    decoded = unquote(BETWEEN.join([word[0] for word in words])).split(BETWEEN)
    if len(decoded) != len(words):
        decoded = [unquote(word[0]) for word in words]
    return _masked(text, [word.span() for word in words], decoded, mask, _quoted)


def _masked(text: str, spans: list[Span], decoded: list[str], mask: Mask, spell: Mask) -> str:
    """Mask the words at `spans` in a text if their decoded texts have secrets. `spell` encodes a masked word again."""
    if not decoded:
        return text
    masked = mask_together(decoded, mask)
    parts: list[str] = []
    done = 0
    for (start, end), plain, masked_word in zip(spans, decoded, masked, strict=True):
        if masked_word != plain:
            parts += (text[done:start], spell(masked_word))
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _quoted(text: str) -> str:
    """Percent-encode the characters `_TO_QUOTE` of a text.

    For a short text, urllib's `quote` takes four times as long.
    """
    return _TO_QUOTE.sub(lambda match: "".join(map(_ESCAPE_OF.__getitem__, match[0].encode("utf-8", "replace"))), text)


def _words_of_urls(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text with a percent-encoded byte. A word consists of characters that a URL may have."""
    letters = text.encode("latin-1", "replace").translate(_IN_ESCAPED)
    end, position = 0, text.find("%")
    while position >= 0:
        start, end = letters.rfind(b" ", end, position) + 1 or end, letters.find(b" ", position)
        end = len(text) if end < 0 else end
        word = _ESCAPED.match(text, start, end)
        if word is not None and word.end() == end:
            yield word
        else:
            yield from _ESCAPED.finditer(text, start, end)
        position = text.find("%", end)


def _in_base64(text: str, runs: list[int], mask: Mask) -> str:
    spans: list[Span] = []
    decoded: list[str] = []
    for at in runs:
        word = _WORD.match(text, at) or (_WORD.match(text, at + 1) if text[at - 1 : at] == "\\" else None)
        plain = _text_of(word[0]) if word else None
        if word is not None and plain is not None:
            spans.append(word.span())
            decoded.append(plain)
    return _masked(text, spans, decoded, mask, lambda _: _MASK)


def _text_of(word: str) -> str | None:
    """Decode a word in base64. Return None if the word is too long, or does not encode a text."""
    letters = word.rstrip("=").translate(_STANDARD)
    if len(letters) >= LONGEST_ENCODED:
        return None
    whole = letters + "A" * (-len(letters) % 4 if len(letters) % 4 != 1 else 3)
    try:
        text = base64.b64decode(whole)[: len(letters) * 6 // 8].decode()
    except ours(ValueError):
        return None
    return text if text.translate(_SPACES).isprintable() else None


_STANDARD = str.maketrans("-_", "+/")
_SPACES = str.maketrans("\r\n\t", "   ")
