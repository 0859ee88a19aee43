"""Unpacks the parts of a stream, which are the texts of its `llm_stream` records."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping

from trace_recorder.background_work import yield_to_others
from trace_recorder.decompression import max_size
from trace_recorder.values.messages import Payload


def unpacked(parts: Iterable[Mapping[str, Payload]]) -> list[bytes]:
    """Unpack the parts of a stream from the data of their records.

    Raises ValueError if the unpacked bytes are more than the limit, or if a part is cut off. Raises TypeError or
    zlib.error if a part is no packed text.
    """
    packed = [_decode_part(data) for data in parts]
    remaining = max_size(sum(map(len, packed)))
    inflated = []
    for part in packed:
        yield_to_others()
        stream = zlib.decompressobj()
        inflated.append(stream.decompress(part, remaining + 1))
        remaining -= len(inflated[-1])
        if remaining < 0 or not stream.eof:
            raise ValueError("a part of a stream is cut off, or too large")
    return inflated


def _decode_part(data: Mapping[str, Payload]) -> bytes:
    yield_to_others()
    return base64.b64decode(data.get("zlib", ""))
