"""The addresses of sinks: of OTLP endpoints, and as messages may have them."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

_PATH = "/v1/traces"


def endpoint_of(url: str) -> str:
    """Return the address that spans are sent to: of a server's address alone, with OTLP's own path.

    Raises ValueError where it is no address.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is no endpoint: an address such as http://localhost:4318 is expected.")
    return urlunsplit(parts._replace(path=_PATH)) if parts.path in {"", "/"} else url


def shown(endpoint: str) -> str:
    """Return an address as messages and files may have it: without a user, a password or a query."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
