"""The module of Python 3.14 for zstd, or its backport. Tests compress with it."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, compress
else:
    from backports.zstd import ZstdDecompressor, compress

__all__ = ["ZstdDecompressor", "compress"]
