"""Secrets that are encoded in a text: in base64, or with the escapes of a URL.

A word that is the encoding of a text is decoded, and searched as a text is. Invariants: an encoding of anything else,
such as an image, a hash or a signature, is not decoded; each word is searched once, up to a bounded length.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.candidates import Look

LONGEST = 8192
"""Words of more characters are not decoded: they are files."""

_OF_TEXT = "[CDI-Za-f][ACDEFGHQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
"""Four letters of base64 that encode three characters of ASCII; of random bytes one group in fifteen does."""
_WORD = re.compile(rf"(?:{_OF_TEXT}){{6}}[A-Za-z0-9+/_-]{{0,{LONGEST}}}+={{0,2}}")
_ESCAPED = re.compile(rf"(?>(?:[A-Za-z0-9._~+*-]|%[0-9A-Fa-f]{{2}}){{8,{LONGEST}}})")
_IN_ESCAPED = bytes(
    ord("w") if chr(code) in string.ascii_letters + string.digits + "._~+*-%" else 32 for code in range(256)
)
MARK = b"%"
"""What each escape of a URL begins with; what is in base64 is known by its length alone."""
_ESCAPE = re.compile(r"%[2-7][0-9A-Fa-f]")

Mask = Callable[[str], str]
Sees = Callable[[str], bool]


def signs(look: Look, sees: Sees) -> list[int]:
    """Return where in a text something may be encoded; `sees` says whether a secret may be in a text."""
    places = [at for at in look.runs if _is_text(look.plain, at)]
    if MARK in look.data and _ESCAPE.search(look.plain):
        words = dict(_escaped(look))
        if sees(_unquoted("\n".join(words.values()))):
            places += [at for at, word in words.items() if sees(_unquoted(word))]
    return places


def _escaped(look: Look) -> Iterator[tuple[int, str]]:
    """Yield the words that have an escape of a URL, each with the text before it, and where its first escape is."""
    plain, letters = look.plain, look.data.translate(_IN_ESCAPED)
    end = 0
    for found in _ESCAPE.finditer(plain):
        at = found.start()
        if at >= end:
            start = letters.rfind(b" ", end, at)
            end = letters.find(b" ", at)
            end = len(plain) if end < 0 else end
            yield at, plain[max(start, 0) : end]


def _unquoted(words: str) -> str:
    return unquote(words, "latin-1")


def _is_text(plain: str, at: int) -> bool:
    """Whether the word there is the encoding of a text; after an escape it may begin a letter later."""
    word = _WORD.match(plain, at)
    if word is not None and _text_of(word[0]) is not None:
        return True
    word = _WORD.match(plain, at + 1) if plain[at - 1 : at] == "\\" else None
    return word is not None and _text_of(word[0]) is not None


def mask_encoded(text: str, mask: Mask) -> str:
    """Mask the words of a text in which, once decoded, `mask` finds something."""
    return _in_base64(_in_urls(text, mask) if "%" in text else text, mask)


def _in_urls(text: str, mask: Mask) -> str:
    """Mask what is percent-encoded; a word without an escape is not examined."""
    letters = text.encode("latin-1", "replace").translate(_IN_ESCAPED)
    parts: list[str] = []
    done, at = 0, text.find("%")
    while at >= 0:
        start, end = letters.rfind(b" ", done, at) + 1 or done, letters.find(b" ", at)
        end = len(text) if end < 0 else end
        parts += (text[done:start], _ESCAPED.sub(lambda found: _in_url(found[0], mask), text[start:end]))
        done, at = end, text.find("%", end)
    return "".join([*parts, text[done:]])


def _in_url(word: str, mask: Mask) -> str:
    if "%" not in word:
        return word
    said = unquote(word)
    masked = mask(said)
    return word if masked == said else quote(masked, safe="[]:")


def _in_base64(text: str, mask: Mask) -> str:
    parts: list[str] = []
    done = 0
    for at in Look(text).runs:
        found = _WORD.match(text, at) or (_WORD.match(text, at + 1) if text[at - 1 : at] == "\\" else None)
        said = None if found is None or found.start() < done else _text_of(found[0])
        if found is not None and said is not None and mask(said) != said:
            parts += (text[done : found.start()], "[REDACTED:encoded-secret]")
            done = found.end()
    return "".join([*parts, text[done:]]) if parts else text


def _text_of(word: str) -> str | None:
    """Return the text that is encoded; None if there is none, or if it is too long."""
    letters = word.rstrip("=").translate(_STANDARD)
    if len(letters) >= LONGEST:
        return None
    whole = letters + "A" * (-len(letters) % 4 if len(letters) % 4 != 1 else 3)
    try:
        said = base64.b64decode(whole)[: len(letters) * 6 // 8].decode()
    except ours(ValueError):
        return None
    return said if all(letter.isprintable() or letter in "\r\n\t" for letter in said) else None


_STANDARD = str.maketrans("-_", "+/")
