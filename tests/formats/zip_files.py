"""Zip files of any compression method, including methods that `zipfile` does not write."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from tests import zstd

STORED, DEFLATED, ZSTD = 0, 8, 93


def zip_of(members: Mapping[str, bytes], method: int = DEFLATED, sizes: Mapping[str, int] | None = None) -> bytes:
    """Return a zip file. `sizes` are wrong sizes that the file states for some members."""
    body, directory = b"", b""
    for name, data in members.items():
        packed = _packed(data, method)
        size = (sizes or {}).get(name, len(data))
        common = struct.pack("<HHHHHIII", 20, 0, method, 0, 0, zlib.crc32(data), len(packed), size)
        encoded = name.encode()
        at = len(body)
        body += b"PK\x03\x04" + common + struct.pack("<HH", len(encoded), 0) + encoded + packed
        rest = struct.pack("<HHHHHII", len(encoded), 0, 0, 0, 0, 0, at)
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common + rest + encoded
    count = len(members)
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)


def _packed(data: bytes, method: int) -> bytes:
    if method == ZSTD:
        return zstd.compress(data)
    if method == STORED:
        return data
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
