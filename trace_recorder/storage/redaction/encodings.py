"""Finds secrets that are encoded in a text: in base64, or percent-encoded as in a URL.

A word that encodes a text is decoded, and searched like a text. All words of a text are searched together, because
beginning a search costs as much as searching hundreds of characters. Invariants: an encoding of anything else, such as
an image, a hash or a signature, is not decoded. Each word is searched once, up to a bounded length.
"""

from __future__ import annotations

import base64
import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.first_look import LONGEST_ENCODED, OF_TEXT, Look
from trace_recorder.storage.redaction.json_strings import BETWEEN, string_end
from trace_recorder.storage.redaction.secret_spans import ENCODED, JoinedTexts, Secret, Spans
from trace_recorder.storage.redaction.spellings import of_urls

_WORD = lazy_pattern(rf"{OF_TEXT.pattern.decode()}[A-Za-z0-9+/_-]{{0,{LONGEST_ENCODED}}}+={{0,2}}")
_ESCAPED = lazy_pattern(rf"(?>(?:[A-Za-z0-9._~+*-]|%[0-9A-Fa-f]{{2}}){{8,{LONGEST_ENCODED}}})")
_LETTERS_OF_URLS = string.ascii_letters + string.digits + "._~+*-%"
_IN_ESCAPED = re.sub(rb"[^%s]" % re.escape(_LETTERS_OF_URLS.encode()), b" ", bytes(range(256)))
"""Translates the characters that a percent-encoded word cannot have to blanks."""
_ESCAPE = lazy_pattern(r"%[2-7][0-9A-Fa-f]")
Span = tuple[int, int]
Search = Callable[[str], list[Secret]]
"""A function that returns the secrets of a text."""


def possible_words(look: Look, has_secrets: Callable[[str], bool]) -> Iterator[int]:
    """Yield the positions of words in JSON text in which a secret may be encoded, at most one in each string.

    `has_secrets` returns whether a decoded text may have a secret.
    """
    text, done = look.text, 0
    for position in look.runs:
        if position >= done and _is_text(text, position):
            yield position
            done = string_end(text, position)
    marked = (starts for mark, starts in look.marks.items() if mark[0] == "%")
    escapes = sorted(position for starts in marked for position in starts if _ESCAPE.match(text, position))
    if escapes and has_secrets(unquote(BETWEEN.join(_words_at(text, escapes)))):
        yield from escapes


def _words_at(text: str, positions: list[int]) -> Iterator[str]:
    """Yield the words of a text that contain one of these positions. Each consists of characters of a URL."""
    letters, end = text.encode("latin-1", "replace").translate(_IN_ESCAPED), 0
    for position in positions:
        if position >= end:
            start = letters.rfind(b" ", end, position) + 1 or end
            end = letters.find(b" ", position)
            if end < 0:
                end = len(text)
            yield text[start:end]


def _is_text(plain: str, position: int) -> bool:
    """Return whether the word at a position encodes a text.

    If a backslash is before the word, the first letter may belong to an escape, so the word may begin one letter later.
    """
    word = _WORD.match(plain, position)
    if word is not None and text_of_word(word[0]) is not None:
        return True
    if plain[position - 1 : position] != "\\":
        return False
    word = _WORD.match(plain, position + 1)
    return word is not None and text_of_word(word[0]) is not None


def encoded_secrets(look: Look, spans: Spans, search: Search) -> Iterator[Secret]:
    """Yield the secrets in the encoded words of a text, without what is found already.

    `search` returns the secrets of a text. A word that the text has several times is searched once. Of a
    percent-encoded word, only the secret is a span. A word in base64 is a span if it has any secret.
    """
    if "%" in look.text:
        yield from _secrets_in_urls(look.text, spans, search)
    if look.runs:
        yield from _secrets_in_base64(look, spans, search)


def _secrets_in_urls(text: str, spans: Spans, search: Search) -> Iterator[Secret]:
    starts: dict[str, list[int]] = defaultdict(list)
    for start, end in _words_of_urls(text, spans):
        starts[text[start:end]].append(start)
    if not starts:
        return
    words = [*starts]
    joined = JoinedTexts(words)
    spelling = of_urls(joined.text)
    secrets = (Secret(*spelling.span(secret.start, secret.end), secret.kind) for secret in search(spelling.text))
    for number, secret in joined.divide(secrets):
        for start in starts[words[number]]:
            yield Secret(start + secret.start, start + secret.end, secret.kind)


def _secrets_in_base64(look: Look, spans: Spans, search: Search) -> Iterator[Secret]:
    starts: dict[str, list[int]] = defaultdict(list)
    for start, end in _words_in_base64(look, spans):
        starts[look.text[start:end]].append(start)
    texts = {word: plain for word in starts if (plain := text_of_word(word)) is not None}
    if not texts:
        return
    words = [*texts]
    joined = JoinedTexts([*texts.values()])
    for number in {number for number, _ in joined.divide(search(joined.text))}:
        for start in starts[words[number]]:
            yield Secret(start, start + len(words[number]), ENCODED)


def _words_of_urls(text: str, spans: Spans) -> Iterator[Span]:
    """Yield the words of a text with a percent-encoded byte. A word consists of characters that a URL may have."""
    letters = text.encode("latin-1", "replace").translate(_IN_ESCAPED)
    end, position = 0, text.find("%")
    while position >= 0:
        start, end = letters.rfind(b" ", end, position) + 1 or end, letters.find(b" ", position)
        if end < 0:
            end = len(text)
        for begin, stop in spans.gaps(start, end):
            for word in _ESCAPED.finditer(text, begin, stop):
                if "%" in word[0]:
                    yield word.span()
        position = text.find("%", end)


def _words_in_base64(look: Look, spans: Spans) -> Iterator[Span]:
    """Yield the words of a text that may be text in base64. Such a word may follow a secret at once."""
    text = look.text
    positions = [position for position in look.runs if not (spans.secrets and spans.covers(position))]
    positions += [secret.end for secret in spans.secrets]
    for position in sorted(positions):
        end = spans.next_start(position, len(text))
        word = _WORD.match(text, position, end)
        if word is None and text[position - 1 : position] == "\\":
            word = _WORD.match(text, position + 1, end)
        if word is not None:
            yield word.span()


def text_of_word(word: str) -> str | None:
    """Decode a word in base64. Return None if the word is too long, or does not encode a text."""
    letters = word.rstrip("=").translate(_STANDARD)
    if len(letters) >= LONGEST_ENCODED:
        return None
    missing = -len(letters) % 4
    whole = letters + "A" * missing
    try:
        text = base64.b64decode(whole)[: len(letters) * 6 // 8].decode()
    except ours(ValueError):
        return None
    if not text.translate(_SPACES).isprintable():
        return None
    return text


_STANDARD = str.maketrans("-_", "+/")
_SPACES = str.maketrans("\r\n\t", "   ")
