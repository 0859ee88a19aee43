"""Encodes the lines of a journal: the data of each record, and its number, time, kind and CRC.

The data of a large record is encoded before the record has a number (`encode_data`), without any lock. Then only the
CRC remains, which takes 0.2 ms for each MB.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from trace_recorder.facts import Fact, JsonText
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_reader import LINE_BEGIN
from trace_recorder.values.json_text import NotJsonError, make_json_writer, one_line, parse
from trace_recorder.values.jsonable import error_message
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:  # the command `list` reads no items, and must not import them
    from trace_recorder.storage.items.item_lists import NewItem

LARGE_DATA = 32 * 1024
"""Data with more characters than this is encoded before the record has a number."""


Data = str | bytes
"""A record's data: JSON text on one line, or its bytes if `encode_data` has encoded it."""

Records = Sequence[tuple[str, Data]]
"""Records to write: the kind and the data of each."""

Line = tuple[bytes, ...]
"""The bytes of a line, in pieces that are written one after another."""

_dump = make_json_writer(",", ":", allow_nan=False)


def foreign_text(members: Mapping[str, Payload]) -> str:
    """Return the foreign members of a fact as JSON text without braces."""
    exact: list[str] = []
    others: dict[str, Payload] = {}
    for name, value in members.items():
        if type(value) is JsonText:
            exact.append(f'"{name}":{value}')
        else:
            others[name] = value
    if others:
        exact.insert(0, _dump(others)[1:-1])
    return ",".join(exact)


def whole_text(fact: Fact) -> str:
    """Return all members of a fact as JSON text without braces."""
    own, foreign = fact.members()
    return record_data(own, foreign_text(foreign))[1:-1]


def record_data(own: Mapping[str, Payload], text: str, redacted: int = 0) -> str:
    """Return the data of a record as JSON text: its own members, then `text`, which has more members as JSON text.

    `redacted` is how many secrets were masked in `text`. This number is added to the member `redacted`, if any.
    """
    masked_before = own.get("redacted", 0)
    if redacted and isinstance(masked_before, int):
        own = {**own, "redacted": masked_before + redacted}
    begin = _dump(own)[1:-1]
    return f"{{{begin},{text}}}" if begin and text else f"{{{begin}{text}}}"


def item_records(new: Sequence[NewItem], masked: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return the records of new items.

    `masked` has the members of each item after masking, and how many secrets were masked in them.
    """
    return [
        (
            "item",
            f'{{{item.own_members},"redacted":{count},{members}}}' if count else f"{{{item.own_members},{members}}}",
        )
        for item, (members, count) in zip(new, masked[: len(new)], strict=True)
    ]


def encode_data(text: str) -> Data:
    """Encode a record's data if it is large. Return any other data unchanged."""
    return text if len(text) <= LARGE_DATA else _without_line_begins(text).encode()


def encode_lines(records: Iterable[tuple[str, Data]], seq: int, time: str) -> Iterator[bytes]:
    """Yield the lines of records, which are numbered from `seq` on."""
    return map(b"".join, lines_in_pieces(records, seq, time))


def lines_in_pieces(records: Iterable[tuple[str, Data]], seq: int, time: str) -> list[Line]:
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
