"""Chooses which headers of an HTTP message are written to the journal, and which headers have secrets.

Only headers on an allow-list (`_KEPT`) are written. The run learns the values of secret headers, so that they are
masked wherever they occur. A value that is valid for one request only, such as a signature or a nonce, is not learned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.urls import url_secrets
from trace_recorder.values.origins import REPLAYED_FROM_HEADER

Raw = Sequence[tuple[bytes, bytes]]

_KEPT = lazy_pattern(
    r"x-request-id|request-id|x-ms-request-id|apim-request-id|x-goog-request-id|x-client-request-id|cf-ray|x-amzn-requestid"
    r"|x-amzn-bedrock-[a-z-]+"
    r"|x-generation-id|openai-(?:processing-ms|version|model|beta)|anthropic-(?:version|beta)|retry-after(?:-ms)?"
    r"|x-stainless-retry-count|x-should-retry|content-type|content-encoding|x-ms-region|azureml-model-session"
    r"|(?:x-|anthropic-)?ratelimit-[a-z-]+"
    rf"|{REPLAYED_FROM_HEADER}"
)
_SECRET = lazy_pattern(rb"auth|key|token|secret|password|credential", re.IGNORECASE)
_OF_ONE_REQUEST = lazy_pattern(rb"signature|nonce|csrf|xsrf|digest|-date$|^sec-|cookie", re.IGNORECASE)
_SIGNED = lazy_pattern(r"\w[\w-]*\s.*\b(?:signature|response|oauth_nonce)=", re.IGNORECASE)
"""Matches an Authorization header's value such as `AWS4-HMAC-SHA256 … Signature=…`.

Such a value has a signature of the request, and no key.
"""
_SCHEME = lazy_pattern(r"(?:Bearer|Basic|Token|ApiKey|Key)\s+", re.IGNORECASE)
_SUBPROTOCOL_KEY = lazy_pattern(r"openai-insecure-api-key\.([^\s,]+)")
"""Matches the subprotocol by which a client gives its key that can set no header, such as a page in a browser."""
_PUBLIC = frozenset({b"idempotency-key", b"x-stainless-retry-count", b"www-authenticate"})


def kept(raw: Raw) -> dict[str, str]:
    """Return the headers that may be written, by name: request ids, rate limits, versions, content types."""
    return {name: raw[at][1].decode("latin-1") for at, name in _header_positions(tuple(map(_name_of, raw))).kept}


def is_kept(name: str) -> bool:
    """Return whether a header with this name, in lower case, may be written."""
    return _KEPT.fullmatch(name) is not None


def secrets(raw: Raw, url: str = "") -> tuple[list[str], list[str]]:
    """Return the secrets in the headers and the URL of a request: a list of keys, and a list of cookies.

    A key such as "Bearer sk-…" is returned with and without the scheme before it. A `cookie` header is returned whole,
    and the value of each cookie by itself, because a server may renew a single cookie at any time. Of the subprotocols
    of a websocket, only a key in them is returned.
    """
    positions = _header_positions(tuple(map(_name_of, raw)))
    keys: list[str] = []
    if url:
        keys += url_secrets(url)
    cookies: list[str] = []
    for position in positions.secret:
        text = raw[position][1].decode("latin-1")
        if not _SIGNED.match(text):
            keys += (text, _SCHEME.sub("", text, count=1))
    for position in positions.subprotocols:
        keys += _SUBPROTOCOL_KEY.findall(raw[position][1].decode("latin-1"))
    for position in positions.cookies:
        text = raw[position][1].decode("latin-1")
        cookies += (text, *(cookie.partition("=")[2] for cookie in text.split(";") if "=" in cookie))
    return keys, cookies


class _HeaderPositions(NamedTuple):
    kept: tuple[tuple[int, str], ...]
    secret: tuple[int, ...]
    cookies: tuple[int, ...]
    subprotocols: tuple[int, ...]


_name_of = itemgetter(0)


@lru_cache(maxsize=256)
def _header_positions(names: tuple[bytes, ...]) -> _HeaderPositions:
    """Return the positions in a list of headers, by the names of the headers.

    The result is cached, because a client sends the same headers with every request.
    """
    lower = [name.decode("latin-1").lower() for name in names]
    kept = tuple((position, name) for position, name in enumerate(lower) if _KEPT.fullmatch(name))
    secret = (
        position
        for position, name in enumerate(names)
        if _SECRET.search(name) and not _OF_ONE_REQUEST.search(name) and name.lower() not in _PUBLIC
    )
    return _HeaderPositions(
        kept, tuple(secret), _positions(lower, "cookie"), _positions(lower, "sec-websocket-protocol")
    )


def _positions(names: Sequence[str], wanted: str) -> tuple[int, ...]:
    return tuple(position for position, name in enumerate(names) if name == wanted)
