"""Finds passwords and tokens in the URLs of a text, and removes them from the URL of a request before it is recorded.

In a text, each URL is searched up to the beginning of the next URL, so that every character belongs to one search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.name_kinds import is_strange
from trace_recorder.storage.redaction.secret_spans import IN_URL, NO_SPANS, Secret, Spans

Span = tuple[int, int]

_SLASHES = ("://", ":\\/\\/")
_USER = lazy_pattern(
    r"(?:(?P<user>[^\s/:@\"'\\<>]{0,200}):(?P<password>[^\s\"'\\<>`]{1,400})@(?=[A-Za-z0-9.\[_-])"
    r"|(?P<token>[A-Za-z0-9_=~-]{16,400})@(?=[A-Za-z0-9\[]))"
)
_NO_PASSWORD = lazy_pattern(
    r"\[REDACTED|[{<*]|\$[{(A-Z]|%[s(]|password\Z|\d{1,5}[/?#]|\.{3}|x{3}|pass(?:wd)?\Z|pw\Z", re.IGNORECASE
)
_SIGN = lazy_pattern(r"(?:[^\s/:@\"'<>]{0,200}:|[A-Za-z0-9_=~-]{16})[^\s\"'<>@]{0,602}+@")
"""Matches a user with a password, or a token, in JSON text. Some of their characters may be escapes."""
_LONGEST_IN_JSON = 805
_LONGEST = 602
"""The last `MARK` of a URL is looked for in at most this many characters after the slashes of the URL."""
MARK = "@"
"""The character that follows each user, password and token in a URL."""


def secrets_in_urls(text: str, spans: Spans = NO_SPANS) -> Iterator[Secret]:
    """For each URL with a secret in a text, yield one secret: the user and the password, or a token in place of both.

    A URL is not masked if its password begins with a secret that is found already.
    """
    for position, last in _with_mark(text):
        match = _USER.match(text, position, last + 2)
        if match is None:
            continue
        password, token = match["password"], match["token"]
        if password is None:
            if is_strange(token):
                yield Secret(position, match.end("token"), IN_URL)
        elif not (
            match["user"].startswith("[REDACTED")
            or _NO_PASSWORD.match(password)
            or spans.covers(match.start("password"))
        ):
            yield Secret(position, match.end("password"), IN_URL)


def possible_users(text: str) -> Iterator[int]:
    """Yield the positions of URLs in JSON text that may have a user and a password, or a token.

    Slashes with escapes before them are not examined, because each escaped letter is a possible secret.
    """
    if "://" not in text:
        return
    last, mark = 0, text.find(MARK)
    while mark >= 0:
        begin = text.rfind("://", max(last, mark - _LONGEST_IN_JSON), mark)
        if begin >= 0 and _SIGN.match(text, begin + 3, mark + 1):
            yield begin
        last, mark = mark, text.find(MARK, mark + 1)


def _with_mark(text: str) -> Iterator[Span]:
    """For each URL with a `MARK`, yield the position after its slashes, and the position of its last `MARK`."""
    for slashes in _SLASHES:
        mark = text.find(MARK)
        if slashes not in text:
            continue
        while mark >= 0:
            end = text.find(slashes, mark)
            if end < 0:
                end = len(text)
            begin = text.rfind(slashes, max(0, mark - _LONGEST), mark)
            if begin >= 0:
                at = begin + len(slashes)
                yield at, text.rfind(MARK, at, min(end, at + _LONGEST))
            mark = text.find(MARK, end)


# ── the URL of a request ───────────────────────────────────────────────────────────────────────────────────────────

_SECRET_PARAMETER = lazy_pattern(r"key|token|secret|password|auth|credential", re.IGNORECASE)
_HARMLESS_PARAMETERS = frozenset({"api-version", "alt", "beta", "$alt"})


@lru_cache(maxsize=256)
def clean_url(url: str) -> str:
    """Return a URL without user and password. Only harmless parameters of its query are kept."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _HARMLESS_PARAMETERS]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))


@lru_cache(maxsize=256)
def url_secrets(url: str) -> tuple[str, ...]:
    """Return the password and the keys in a URL, which `clean_url` leaves out.

    The run learns these values, so that they are masked wherever they occur.
    """
    parts = urlsplit(url)
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    return (unquote(password), *(value for name, value in parse_qsl(parts.query) if _SECRET_PARAMETER.search(name)))
