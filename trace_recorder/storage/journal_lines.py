"""Encodes the lines of a journal: the data of each record, and its number, time, kind and CRC.

The data of a large record is encoded before the record has a number (`encode_record`), without any lock. Then only the
CRC remains, which takes 0.2 ms for each MB.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from zlib import crc32

from trace_recorder.facts import JsonText
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_reader import LINE_BEGIN
from trace_recorder.values.json_text import NotJsonError, one_line, strict_text
from trace_recorder.values.jsonable import error_message
from trace_recorder.values.messages import Payload

_LINE_BEGIN_BYTES = LINE_BEGIN.encode()
LARGE_DATA = 32 * 1024
"""Data with more characters than this is encoded before the record has a number."""


Data = str | tuple[bytes, ...]
"""A record's data: JSON text on one line, or its bytes in pieces, so that large pieces are not copied."""

NewRecord = tuple[str, Data]
"""A record that has no number yet: its kind and its data."""

Line = tuple[bytes, ...]
"""The bytes of a line, in pieces that are written one after another."""


def encode_record(record: NewRecord) -> NewRecord:
    """Encode the data of a record if the data is large. Return any other record unchanged."""
    kind, data = record
    if isinstance(data, tuple) or len(data) <= LARGE_DATA:
        return record
    return kind, (encode_text(data),)


def encode_text(text: str) -> bytes:
    """Encode JSON text that will be a part of a line."""
    return _without_line_begins(text).encode()


def is_encoded(data: bytes) -> bool:
    """Return whether bytes are as `encode_text` would encode their text."""
    return _LINE_BEGIN_BYTES not in data


def encode_lines(records: Iterable[NewRecord], seq: int, time: str) -> Iterator[bytes]:
    """Yield the lines of records, which are numbered from `seq` on."""
    return map(b"".join, lines_in_pieces(records, seq, time))


def lines_in_pieces(records: Iterable[NewRecord], seq: int, time: str) -> list[Line]:
    """Return the lines of records as `encode_lines` does, each in pieces, so that encoded data is not copied."""
    lines: list[Line] = []
    for number, (kind, data) in enumerate(records, seq):
        head = f'{{"seq":{number},"time":"{time}","kind":"{kind}","data":'
        if isinstance(data, tuple):
            begin = head.encode()
            crc = crc32(begin)
            for piece in data:
                crc = crc32(piece, crc)
            lines.append((begin, *data, b',"crc":"%08x"}\n' % crc))
            continue
        if LINE_BEGIN in data:
            data = _without_line_begins(data)  # noqa: PLW2901 - the same data, written differently
        line = f"{head}{data}".encode()
        lines.append((line, b',"crc":"%08x"}\n' % crc32(line)))
    return lines


def _without_line_begins(text: str) -> str:
    """Return JSON text with a space in each `{"seq":`.

    Readers search damaged lines for this text, because each record begins with it.
    """
    return text.replace(LINE_BEGIN, "{ " + LINE_BEGIN[1:])


def error_text(error: BaseException) -> str:
    """Describe an error by its class and message."""
    message = error_message(error)
    if not message:
        return type(error).__name__
    return f"{type(error).__name__}: {message}"


def body_member(data: bytes, mask: Callable[[bytes], bytes]) -> dict[str, Payload]:
    """Return the body of a plain response as a member of a fact.

    The member is `body` if the body is JSON, and otherwise the result of `text_member`.
    """
    try:
        text = one_line(strict_text(data))
    except NotJsonError:
        return text_member(data, mask)
    if b"\n" in data or b"\r" in data:
        return {"body": JsonText(text)}
    return {"body": JsonText(text, data)}


def text_member(data: bytes, mask: Callable[[bytes], bytes]) -> dict[str, Payload]:
    """Return bytes as a member of a fact: `text` if they are UTF-8, or else `base64` of the masked bytes."""
    try:
        return {"text": data.decode()}
    except ours(UnicodeDecodeError):
        return {"base64": base64.b64encode(mask(data)).decode()}
