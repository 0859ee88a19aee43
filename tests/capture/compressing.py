"""Bodies in the encodings of HTTP."""

from __future__ import annotations

import gzip
import zlib

import brotli

from tests import zstd


def compressed(data: bytes, encoding: str) -> bytes:
    """Return a body in an encoding of HTTP."""
    encode = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
        "zstd": zstd.compress,
    }
    return bytes(encode[encoding](data))
