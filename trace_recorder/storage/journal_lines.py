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
from trace_recorder.values.json_text import NotJsonError, one_line, parse
from trace_recorder.values.jsonable import error_message
from trace_recorder.values.messages import Payload

LARGE_DATA = 32 * 1024
"""Data with more characters than this is encoded before the record has a number."""


Data = str | bytes
"""A record's data: JSON text on one line, or its bytes if `encode_record` has encoded it."""

NewRecord = tuple[str, Data]
"""A record that has no number yet: its kind and its data."""

Line = tuple[bytes, ...]
"""The bytes of a line, in pieces that are written one after another."""


def encode_record(record: NewRecord) -> NewRecord:
    """Encode the data of a record if the data is large. Return any other record unchanged."""
    kind, data = record
    if isinstance(data, bytes) or len(data) <= LARGE_DATA:
        return record
    return kind, _without_line_begins(data).encode()


def encode_lines(records: Iterable[NewRecord], seq: int, time: str) -> Iterator[bytes]:
    """Yield the lines of records, which are numbered from `seq` on."""
    return map(b"".join, lines_in_pieces(records, seq, time))


def lines_in_pieces(records: Iterable[NewRecord], seq: int, time: str) -> list[Line]:
    """Return the lines of records as `encode_lines` does, each in pieces, so that encoded data is not copied."""
    lines: list[Line] = []
    for number, (kind, data) in enumerate(records, seq):
        head = f'{{"seq":{number},"time":"{time}","kind":"{kind}","data":'
        if isinstance(data, bytes):
            begin = head.encode()
            lines.append((begin, data, b',"crc":"%08x"}\n' % crc32(data, crc32(begin))))
            continue
        text = _without_line_begins(data) if LINE_BEGIN in data else data
        line = f"{head}{text}".encode()
        lines.append((b'%s,"crc":"%08x"}\n' % (line, crc32(line)),))
    return lines


def _without_line_begins(text: str) -> str:
    """Return JSON text with a space in each `{"seq":`.

    Readers search damaged lines for this text, because each record begins with it.
    """
    return text.replace(LINE_BEGIN, "{ " + LINE_BEGIN[1:])


def error_text(error: BaseException) -> str:
    """Describe an error by its class and message."""
    message = error_message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def body_member(data: bytes, mask: Callable[[bytes], bytes]) -> dict[str, Payload]:
    """Return the body of a plain response as a member of a fact.

    The member is `body` if the body is JSON, and otherwise the result of `text_member`.
    """
    try:
        text = data.decode()
        parse(text)
    except ours(UnicodeDecodeError, NotJsonError):
        return text_member(data, mask)
    return {"body": JsonText(one_line(text))}


def text_member(data: bytes, mask: Callable[[bytes], bytes]) -> dict[str, Payload]:
    """Return bytes as a member of a fact: `text` if they are UTF-8, or else `base64` of the masked bytes."""
    try:
        return {"text": data.decode()}
    except ours(UnicodeDecodeError):
        return {"base64": base64.b64encode(mask(data)).decode()}
