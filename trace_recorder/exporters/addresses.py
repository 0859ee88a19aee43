"""The addresses of sinks: OTLP endpoints, and addresses in messages."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

_PATH = "/v1/traces"


def endpoint_of(url: str) -> str:
    """Return the address for spans.

    OTLP's path is added to an address without a path. Raises ValueError if it is not an address.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is not an endpoint: give an address such as http://localhost:4318.")
    return urlunsplit(parts._replace(path=_PATH)) if parts.path in {"", "/"} else url


def shown(endpoint: str) -> str:
    """Return an address for messages and files: without a user, a password or a query."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
