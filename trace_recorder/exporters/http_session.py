"""The HTTP session of exporters, and the addresses that they send to.

The session follows no redirects, and reads at most `MAX_ANSWER_BYTES` of an answer. A redirected request counts as
refused, because a redirect may lead to a login page. The package `requests`, on which the services' clients are built,
is imported when a session is made.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from trace_recorder.guard import ignore_failures, logger

_PATH = "/v1/traces"


def endpoint_of(url: str) -> str:
    """Return the address to which spans are sent. A URL without a path gets OTLP's path.

    Raises ValueError if the URL is not an HTTP address.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is not an endpoint: give an address such as http://localhost:4318.")
    if parts.path in {"", "/"}:
        return urlunsplit(parts._replace(path=_PATH))
    return url


def shown_address(endpoint: str) -> str:
    """Return an address without its user, password and query, as messages and files show it."""
    parts = urlsplit(endpoint)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


MAX_ANSWER_BYTES = 64 * 1024
"""At most this many bytes of an answer are read.

A compressed answer is also cut when it has decompressed to this many bytes.
"""
_REFUSED = 400


def session() -> Any:
    """Return a `requests.Session` that follows no redirects and limits answers.

    Raises ImportError if requests is not installed.
    """
    http_session = import_module("requests").Session()
    http_session.headers["Accept-Encoding"] = "identity"
    for scheme in ("http://", "https://"):
        http_session.mount(scheme, _adapter_class()())
    return http_session


@cache
def _adapter_class() -> Any:
    base = import_module("requests.adapters").HTTPAdapter

    class Adapter(base):  # type: ignore[misc, valid-type]
        def send(self, request: Any, stream: bool = False, **options: Any) -> Any:  # noqa: ARG002 - always a stream
            response = super().send(request, stream=True, **options)
            with response:
                data = response.raw.read(MAX_ANSWER_BYTES, decode_content=False)
            if response.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
                encoded, data = data, b""
                with ignore_failures:  # the beginning of gzip or deflate
                    data = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(encoded, MAX_ANSWER_BYTES)
            response._content = data
            response._content_consumed = True
            if 300 <= response.status_code < 400:
                target = urljoin(request.url, response.headers.get("location", ""))
                message = "%s answered %d, a redirect to %s. The redirect was not followed, and nothing arrived."
                with ignore_failures:
                    logger.warning(message, shown_address(request.url), response.status_code, shown_address(target))
                response.status_code, response.reason = _REFUSED, "a redirect, which was not followed"
            return response

    return Adapter
