"""The HTTP session of sinks.

It follows no redirects and reads little of an answer. A redirect counts as refused, because it may lead to a login
page. `requests`, on which the clients of sinks are built, is imported when a session is made.
"""

from __future__ import annotations

import zlib
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urljoin

from trace_recorder.exporters.addresses import shown
from trace_recorder.guard import logger, try_call

MAX_ANSWER_BYTES = 64 * 1024
"""How many bytes of an answer are read, both compressed and decompressed."""
_REFUSED = 400


def session() -> Any:
    """Return a `requests.Session`. Raises ImportError where requests is not installed."""
    requests = import_module("requests")
    made = requests.Session()
    made.headers["Accept-Encoding"] = "identity"
    for scheme in ("http://", "https://"):
        made.mount(scheme, _adapter_class()())
    return made


@cache
def _adapter_class() -> Any:
    base = import_module("requests.adapters").HTTPAdapter

    class Adapter(base):  # type: ignore[misc, valid-type]
        def send(self, request: Any, stream: bool = False, **options: Any) -> Any:  # noqa: ARG002 - always a stream
            response = super().send(request, stream=True, **options)
            with response:
                data = response.raw.read(MAX_ANSWER_BYTES, decode_content=False)
            is_encoded = response.headers.get("content-encoding", "identity").lower() not in {"", "identity"}
            response._content = try_call(_decompressed, lambda _: b"", data) if is_encoded else data
            response._content_consumed = True
            if 300 <= response.status_code < 400:
                target = urljoin(request.url, response.headers.get("location", ""))
                message = "%s answered %d, a redirect to %s. It was not followed, and nothing arrived."
                try_call(
                    lambda: logger.warning(message, shown(request.url), response.status_code, shown(target)),
                    lambda _: None,
                )
                response.status_code, response.reason = _REFUSED, "a redirect, which was not followed"
            return response

    return Adapter


def _decompressed(data: bytes) -> bytes:
    """Return the beginning of an answer in gzip or deflate."""
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, MAX_ANSWER_BYTES)
