"""URLs for the file: without user, password and query; and the secrets that were in them."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

_SECRET_PARAMETER = re.compile(r"key|token|secret|password|auth|credential", re.IGNORECASE)
_HARMLESS_PARAMETERS = frozenset({"api-version", "alt", "beta", "$alt"})


@lru_cache(maxsize=256)
def clean_url(url: str) -> str:
    """Return a URL without user, password and query, except for parameters that are known to be harmless."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _HARMLESS_PARAMETERS]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query), ""))


@lru_cache(maxsize=256)
def url_secrets(url: str) -> tuple[str, ...]:
    """Return the password and the keys in a URL, which `clean_url` leaves out: whatever repeats them is masked."""
    parts = urlsplit(url)
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    return (unquote(password), *(value for name, value in parse_qsl(parts.query) if _SECRET_PARAMETER.search(name)))
