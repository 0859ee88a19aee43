"""Bodies in the encodings of HTTP."""

from __future__ import annotations

import gzip
import zlib
from functools import partial

import brotli

from tests import zstd


def compressed(data: bytes, encoding: str) -> bytes:
    """Return a body in an encoding of HTTP."""
    encode = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": partial(brotli.compress, quality=4),  # the usual 11 takes ten times as long for the same text
        "zstd": zstd.compress,
    }
    return bytes(encode[encoding](data))
