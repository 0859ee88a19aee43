"""Which headers are kept, and which carry secrets: an allow-list for the file, a deny-pattern to learn from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

Raw = Iterable[tuple[bytes, bytes]]

_KEPT = re.compile(
    r"x-request-id|request-id|x-ms-request-id|apim-request-id|x-goog-request-id|x-client-request-id|cf-ray"
    r"|x-generation-id|openai-(?:processing-ms|version|model|beta)|anthropic-(?:version|beta)|retry-after(?:-ms)?"
    r"|x-stainless-retry-count|x-should-retry|content-type|content-encoding|x-ms-region|azureml-model-session"
    r"|(?:x-|anthropic-)?ratelimit-[a-z-]+"
)
_SECRET = re.compile(rb"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Key)\s+", re.IGNORECASE)
_PUBLIC = frozenset({b"idempotency-key", b"x-stainless-retry-count", b"www-authenticate"})


def kept(raw: Raw) -> dict[str, str]:
    """The headers that the file may show: request ids, rate limits, versions, types."""
    return {kind.name: value.decode("latin-1") for name, value in raw if (kind := _kind(name)).kept}


def secrets(raw: Raw) -> Iterator[str]:
    """The values that must not reach a file, with and without the scheme before them."""
    for name, value in raw:
        if _kind(name).secret:
            text = value.decode("latin-1")
            yield text
            yield _SCHEME.sub("", text, count=1)


class _Kind(NamedTuple):
    name: str
    kept: bool
    secret: bool


@lru_cache(maxsize=1024)
def _kind(name: bytes) -> _Kind:
    """What a header's name says of it."""
    lower = name.decode("latin-1").lower()
    secret = _SECRET.search(name) is not None and name.lower() not in _PUBLIC
    return _Kind(lower, _KEPT.fullmatch(lower) is not None, secret)
