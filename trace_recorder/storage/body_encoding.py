"""How the bytes of requests and responses are written in records; `derive/record_bodies.py` reads them again."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable

from trace_recorder.signal_handlers import ours
from trace_recorder.storage import stream_chunks
from trace_recorder.values.json_text import NotJsonError, one_line, parse
from trace_recorder.values.jsonable import error_message

MAX_EXPANSION = 64
"""How many times its packed size the text of a stream may have. Readers refuse more, beyond 64 MB."""


def joined_bytes(pieces: list[stream_chunks.TimedBytes]) -> bytes:
    """Join the bytes of chunks."""
    return b"".join([data for _, data in pieces])


def first_pieces(pieces: list[stream_chunks.TimedBytes], size: int) -> list[stream_chunks.TimedBytes]:
    """Return the first chunks that together have at least `size` bytes, or all."""
    found = 0
    for number, (_, data) in enumerate(pieces[:], 1):
        found += len(data)
        if found >= size:
            return pieces[:number]
    return pieces[:]


def packed(data: bytes, level: int) -> str:
    """Encode a part's text as base64 of zlib. Text that is more compressible than readers accept is stored."""
    packed = zlib.compress(data, level)
    return base64.b64encode(packed if len(data) <= MAX_EXPANSION * len(packed) else zlib.compress(data, 0)).decode()


def error_text(error: BaseException) -> str:
    """Describe an error by its class and message."""
    message = error_message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def body_member(data: bytes, mask: Callable[[bytes], bytes]) -> str:
    """Return a plain response as a member of a record: `body` for JSON, else as `text_member` does."""
    try:
        text = data.decode()
        parse(text)
    except ours(UnicodeDecodeError, NotJsonError):
        return text_member(data, mask)
    return f'"body":{one_line(text)}'


def text_member(data: bytes, mask: Callable[[bytes], bytes]) -> str:
    """Return bytes as a member of a record: `text` if they are UTF-8, else `base64` of what `mask` leaves of them."""
    try:
        return f'"text":{json.dumps(data.decode(), ensure_ascii=False)}'
    except ours(UnicodeDecodeError):
        return f'"base64":"{base64.b64encode(mask(data)).decode()}"'
