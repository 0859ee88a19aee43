"""Finds secrets that are encoded in a text: in base64, or percent-encoded as in a URL.

A word that encodes a text is decoded, and searched like a text. All words of a text are searched together, because
beginning a search costs as much as searching hundreds of characters. Invariants: an encoding of anything else, such as
an image, a hash or a signature, is not decoded. Each word is searched once, up to a bounded length.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.first_look import LONGEST_ENCODED, OF_TEXT, Look
from trace_recorder.storage.redaction.json_strings import BETWEEN, string_end
from trace_recorder.storage.redaction.secret_spans import ENCODED, JoinedTexts, Secret, Spans
from trace_recorder.storage.redaction.spellings import of_urls

_WORD = re.compile(rf"{OF_TEXT.pattern.decode()}[A-Za-z0-9+/_-]{{0,{LONGEST_ENCODED}}}+={{0,2}}")
_ESCAPED = re.compile(rf"(?>(?:[A-Za-z0-9._~+*-]|%[0-9A-Fa-f]{{2}}){{8,{LONGEST_ENCODED}}})")
_IN_ESCAPED = bytes(
    ord("w") if chr(code) in string.ascii_letters + string.digits + "._~+*-%" else 32 for code in range(256)
)
_ESCAPE = re.compile(r"%[2-7][0-9A-Fa-f]")
Span = tuple[int, int]


class _Word(NamedTuple):
    """The span of a word in base64, and its decoded text."""

    start: int
    end: int
    text: str


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


def encoded_secrets(look: Look, spans: Spans, search: Callable[[str], list[Secret]]) -> Iterator[Secret]:
    """Yield the secrets in the encoded words of a text, without what is found already.

    `search` returns the secrets of a text. Of a percent-encoded word, only the secret is a span. A word in base64 is a
    span if it has any secret.
    """
    text = look.text
    in_urls = [*_words_of_urls(text, spans)] if "%" in text else []
    if in_urls:
        words = JoinedTexts([text[start:end] for start, end in in_urls])
        spelling = of_urls(words.text)
        secrets = (Secret(*spelling.span(secret.start, secret.end), secret.kind) for secret in search(spelling.text))
        for number, secret in words.divide(secrets):
            start = in_urls[number][0]
            yield Secret(start + secret.start, start + secret.end, secret.kind)
    in_base64 = [*_words_in_base64(look, spans)] if look.runs else []
    if in_base64:
        joined = JoinedTexts([word.text for word in in_base64])
        for number in sorted({number for number, _ in joined.divide(search(joined.text))}):
            yield Secret(in_base64[number].start, in_base64[number].end, ENCODED)


def _words_of_urls(text: str, spans: Spans) -> Iterator[Span]:
    """Yield the words of a text with a percent-encoded byte. A word consists of characters that a URL may have."""
    letters = text.encode("latin-1", "replace").translate(_IN_ESCAPED)
    end, position = 0, text.find("%")
    while position >= 0:
        start, end = letters.rfind(b" ", end, position) + 1 or end, letters.find(b" ", position)
        end = len(text) if end < 0 else end
        for begin, stop in spans.gaps(start, end) if spans.secrets else ((start, end),):
            for word in _ESCAPED.finditer(text, begin, stop):
                if "%" in word[0]:
                    yield word.span()
        position = text.find("%", end)


def _words_in_base64(look: Look, spans: Spans) -> Iterator[_Word]:
    """Yield the words of a text that are text in base64. Such a word may follow a secret at once."""
    text = look.text
    positions = [position for position in look.runs if not (spans.secrets and spans.covers(position))]
    positions += [secret.end for secret in spans.secrets]
    for position in sorted(positions):
        end = spans.next_start(position, len(text))
        word = _WORD.match(text, position, end)
        if word is None and text[position - 1 : position] == "\\":
            word = _WORD.match(text, position + 1, end)
        plain = _text_of(word[0]) if word else None
        if word is not None and plain is not None:
            yield _Word(*word.span(), plain)


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
