"""Chooses the headers that are kept, by an allow-list, and the headers whose values are learned as secrets.

A value that is valid for one request only, such as a signature or a nonce, is not learned. The value cannot reach the
file, because only headers on the allow-list are written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from trace_recorder.storage.redaction.urls import url_secrets
from trace_recorder.values.origins import REPLAYED_FROM_HEADER

Raw = Sequence[tuple[bytes, bytes]]

_KEPT = re.compile(
    r"x-request-id|request-id|x-ms-request-id|apim-request-id|x-goog-request-id|x-client-request-id|cf-ray|x-amzn-requestid"
    r"|x-amzn-bedrock-[a-z-]+"
    r"|x-generation-id|openai-(?:processing-ms|version|model|beta)|anthropic-(?:version|beta)|retry-after(?:-ms)?"
    r"|x-stainless-retry-count|x-should-retry|content-type|content-encoding|x-ms-region|azureml-model-session"
    r"|(?:x-|anthropic-)?ratelimit-[a-z-]+"
    rf"|{REPLAYED_FROM_HEADER}"
)
_SECRET = re.compile(rb"auth|key|token|secret|password|credential", re.IGNORECASE)
_OF_ONE_REQUEST = re.compile(rb"signature|nonce|csrf|xsrf|digest|-date$|^sec-|cookie", re.IGNORECASE)
_SIGNED = re.compile(r"\w[\w-]*\s.*\b(?:signature|response|oauth_nonce)=", re.IGNORECASE)
"""An Authorization header with the signature of the request."""
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Key)\s+", re.IGNORECASE)
_PUBLIC = frozenset({b"idempotency-key", b"x-stainless-retry-count", b"www-authenticate"})


def kept(raw: Raw) -> dict[str, str]:
    """Return the headers that may be written: request ids, rate limits, versions, types."""
    return {name: raw[at][1].decode("latin-1") for at, name in _places(tuple(map(_name_of, raw))).kept}


def secrets(raw: Raw, url: str = "") -> tuple[list[str], list[str]]:
    """Return the keys and the cookies of a request, which must not reach a file.

    A key is returned with and without the scheme before it. Cookies are returned together and one by one, because a
    server may renew one of them at any time.
    """
    places = _places(tuple(map(_name_of, raw)))
    keys = [*url_secrets(url)] if url else []
    cookies: list[str] = []
    for position in places.secret:
        text = raw[position][1].decode("latin-1")
        if not _SIGNED.match(text):
            keys += (text, _SCHEME.sub("", text, count=1))
    for position in places.cookies:
        text = raw[position][1].decode("latin-1")
        cookies += (text, *(cookie.partition("=")[2] for cookie in text.split(";") if "=" in cookie))
    return keys, cookies


class _Places(NamedTuple):
    kept: tuple[tuple[int, str], ...]
    secret: tuple[int, ...]
    cookies: tuple[int, ...]


_name_of = itemgetter(0)


@lru_cache(maxsize=256)
def _places(names: tuple[bytes, ...]) -> _Places:
    """Return the positions of the headers that are kept, of secret headers, and of cookies.

    The result is cached, because a client sends the same headers every time.
    """
    lower = [name.decode("latin-1").lower() for name in names]
    kept = tuple((position, name) for position, name in enumerate(lower) if _KEPT.fullmatch(name))
    secret = (
        position
        for position, name in enumerate(names)
        if _SECRET.search(name) and not _OF_ONE_REQUEST.search(name) and name.lower() not in _PUBLIC
    )
    return _Places(kept, tuple(secret), tuple(position for position, name in enumerate(lower) if name == "cookie"))
