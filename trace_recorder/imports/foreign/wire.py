"""Shared by the formats that recorded HTTP: which exchanges are calls to a model, and bodies as bytes.

Other traffic is not read: it is only counted.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable
from urllib.parse import urlsplit

from trace_recorder.dialects.endpoints import Endpoint, endpoint_of
from trace_recorder.imports.foreign.run import Annotation, Event, Exchange, Missing
from trace_recorder.imports.foreign.zstd import FREE_BYTES, MAX_RATIO
from trace_recorder.values.messages import Payload

OTHER_REQUESTS = "other_requests"
"""The annotation that says how many requests in a file went elsewhere."""
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_MEMBERS = 100
"""How many members of gzip a body may have one after another."""
_GZIP = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def model_endpoint(method: Payload, url: Payload) -> Endpoint | None:
    """Return the endpoint of a model that a request goes to; None for other traffic."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        return endpoint_of(str(method).upper(), parts.hostname or "", parts.path, parts.port)
    except ValueError:
        return None


def other_requests(count: int) -> list[Event]:
    """State how many requests of a file went elsewhere."""
    return [Annotation(key=OTHER_REQUESTS, value=count)] if count else []


def with_gap(exchange: Exchange, name: str, why: str | None = None) -> list[Event]:
    """Return an exchange, and a gap if its response is not complete, or has no status or no body."""
    has_body = exchange.response is not None or exchange.answer is not None
    if has_body and exchange.status is None:
        why = "it has no status"
    elif exchange.status is not None and not has_body:
        why = "it has no body, or one that is not base64 as it says"
    missing = [] if why is None else [Missing(what=f"the response of {name}", why=why, time=exchange.time)]
    return [exchange, *missing]


def header_pairs(headers: Iterable[tuple[Payload, Payload]]) -> list[tuple[bytes, bytes]]:
    """Return headers as bytes. One that has several values is a header for each of them."""
    pairs = ((name, one) for name, value in headers for one in (value if isinstance(value, list) else [value]))
    return [
        (_latin(name), _latin(one)) for name, one in pairs if isinstance(name, str) and isinstance(one, str | bytes)
    ]


def _latin(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1", "replace")


def as_bytes(text: str) -> bytes:
    """Return a text as the bytes of a body. Half of a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace")


def from_base64(text: str) -> bytes | None:
    """Decode a base64 text; return None if it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def without_encoding(data: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[bytes, str | None]:
    """Undo the Content-Encoding of a body that is still encoded; return the rest of the reason if that fails.

    A body that decompresses to more than 100 times its size (and to more than 64 MB) is cut there.
    """
    name = next((value.decode("latin-1") for key, value in headers if key.lower() == b"content-encoding"), "")
    bits = _GZIP.get(name.strip().lower())
    if bits is None or not data or (bits == zlib.MAX_WBITS | 16 and not data.startswith(_GZIP_MAGIC)):
        known = name.strip().lower() in {"", "identity"} or bits is not None or data[:1] in b"{[ed:"
        return data, None if known else f"the encoding {name} is not read"
    limit = max(FREE_BYTES, MAX_RATIO * len(data))
    parts: list[bytes] = []
    remaining = data
    for _ in range(_MAX_MEMBERS):
        decoder = zlib.decompressobj(bits)
        try:
            remaining_limit = max(1, limit - sum(map(len, parts)))  # 0 would be no limit
            parts.append(decoder.decompress(remaining, remaining_limit))
        except zlib.error as error:
            why = None if bits == zlib.MAX_WBITS else f"it cannot be decompressed ({error})"
            return b"".join(parts) if parts else data, why
        if decoder.unconsumed_tail:
            return b"".join(parts), f"it decompresses to more than {limit} bytes"
        remaining = decoder.unused_data
        if not remaining.startswith(_GZIP_MAGIC):
            return b"".join(parts), None if decoder.eof else "its compressed data is not complete"
    return b"".join(parts), f"its compressed data has more than {_MAX_MEMBERS} members"
