"""Users, passwords and tokens in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trace_recorder.storage.redaction.candidates import Look
from trace_recorder.storage.redaction.name_kinds import is_strange

Span = tuple[int, int]

_URL = re.compile(
    r"(?P<slashes>:(?://|\\/\\/))(?:(?P<user>[^\s/:@\"'\\<>]{0,200}):(?P<password>[^\s\"'\\<>`]{1,400})@(?=[A-Za-z0-9.\[_-])"
    r"|(?P<token>[A-Za-z0-9_=~-]{16,400})@(?=[A-Za-z0-9\[]))"
)
_NO_PASSWORD = re.compile(
    r"\[REDACTED|[{<*]|\$[{(A-Z]|%[s(]|password\Z|\d{1,5}[/?#]|[^@]*://|\.{3}|x{3}|pass(?:wd)?\Z|pw\Z", re.IGNORECASE
)


_URL_LONGEST = 602
_URL_SIGN = re.compile(rf":(?://|\\/\\/)[^\s\"'<>]{{1,{_URL_LONGEST}}}?@", re.ASCII)
_SLASHES = ("://", r":\/\/")


MARK = b"@"
"""What follows each of them."""


def secrets_in_urls(text: str) -> Iterator[Span]:
    """Return where the user and password of a URL are, or the token in place of both."""
    at = text.find(":")
    while at >= 0 and (found := _URL.search(text, at)):
        password, token = found["password"], found["token"]
        at = found.end("slashes")
        if password is not None and not found["user"].startswith("[REDACTED") and not _NO_PASSWORD.match(password):
            yield at, found.end("password")
            at = found.end("password")
        elif token is not None and is_strange(token):
            yield at, found.end("token")
            at = found.end("token")


def url_signs(look: Look) -> list[int]:
    """Return where in a text a URL may have a user and a password."""
    data, plain = look.data, look.plain
    places: list[int] = []
    at = data.find(MARK)
    while at >= 0:
        word = data[max(0, at - _URL_LONGEST - len(_SLASHES[1])) : at + 1].rsplit(None, 1)[-1]
        if b":" in word:
            for some in _SLASHES:
                begin = plain.rfind(some, max(0, at - _URL_LONGEST - len(some)), at)
                if begin >= 0 and _URL_SIGN.match(plain, begin):
                    places.append(begin)
        at = data.find(MARK, at + 1)
    return places
