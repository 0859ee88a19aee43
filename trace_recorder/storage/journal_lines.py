"""Encodes the lines of a journal: the data of each record, and its number, time, kind and CRC.

The data of a large record is encoded before the record has a number (`encode_data`), without any lock. The CRC of the
line is computed from the CRC of the data and the CRC of the bytes before the data. So the work that needs the number
does not grow with the size of the record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING
from zlib import crc32

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_reader import LINE_BEGIN
from trace_recorder.values.json_text import NotJsonError, make_json_writer, one_line, parse
from trace_recorder.values.jsonable import error_message

if TYPE_CHECKING:  # the command `list` reads no items, and must not import them
    from trace_recorder.storage.items.item_lists import NewItem

LARGE_DATA = 32 * 1024
"""Data with more characters than this is encoded before the record has a number."""


@dataclass(frozen=True, slots=True)
class EncodedData:
    """A record's data, encoded, and its CRC-32."""

    data: bytes
    crc: int


Data = str | EncodedData | Callable[[Sequence[int]], str]
"""A record's data: JSON text on one line, `EncodedData`, or a function.

The function gets the CRCs of the earlier records of the same write, and returns the text.
"""

Records = Sequence[tuple[str, Data]]
"""Records to write: the kind and the data of each."""

Line = tuple[bytes, ...]
"""The bytes of a line, in pieces that are written one after another."""

_dump = make_json_writer(",", ":", allow_nan=False)


def record_data(members: Mapping[str, object], text: str, redacted: int = 0) -> str:
    """Return the data of a record as JSON text: `members`, then `text`, which has more members as JSON text.

    `redacted` is how many secrets were masked in `text`. This number is added to the member `redacted` of `members`, if
    any.
    """
    masked_before = members.get("redacted", 0)
    if redacted and isinstance(masked_before, int):
        members = {**members, "redacted": masked_before + redacted}
    own = _dump(members)[1:-1]
    return f"{{{own},{text}}}" if text else f"{{{own}}}"


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
    if len(text) <= LARGE_DATA:
        return text
    data = _without_line_begins(text).encode()
    return EncodedData(data, crc32(data))


def encode_lines(records: Iterable[tuple[str, Data]], seq: int, time: str, crcs: list[int]) -> Iterator[bytes]:
    """Yield the lines of records, which are numbered from `seq` on. Add the CRC of each line to `crcs`."""
    return map(b"".join, lines_in_pieces(records, seq, time, crcs))


def lines_in_pieces(records: Iterable[tuple[str, Data]], seq: int, time: str, crcs: list[int]) -> list[Line]:
    """Return the lines of records as `encode_lines` does, each in pieces, so that encoded data is not copied."""
    lines: list[Line] = []
    for kind, data in records:
        head = f'{{"seq":{seq + len(crcs)},"time":"{time}","kind":"{kind}","data":'
        if isinstance(data, EncodedData):
            begin = head.encode()
            crcs.append(combined_crc(crc32(begin), data.crc, len(data.data)))
            lines.append((begin, data.data, b',"crc":"%08x"}\n' % crcs[-1]))
            continue
        text = data if isinstance(data, str) else data(crcs)
        if LINE_BEGIN in text:
            text = _without_line_begins(text)
        line = f"{head}{text}".encode()
        crcs.append(crc32(line))
        lines.append((b'%s,"crc":"%08x"}\n' % (line, crcs[-1]),))
    return lines


def _without_line_begins(text: str) -> str:
    """Return JSON text with a space in each `{"seq":`.

    Readers search damaged lines for this text, because each record begins with it.
    """
    return text.replace(LINE_BEGIN, "{ " + LINE_BEGIN[1:])


# ── the CRC-32 of two texts joined, as zlib's crc32_combine computes it ──────────────────────────────────────────────

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31


def combined_crc(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two joined texts, from the CRC-32 of each and the length of the second in bytes."""
    shift, power = _ONE, 3
    while length:
        if length & 1:
            shift = _product(_POWERS[power & 31], shift)
        length >>= 1
        power += 1
    return _product(shift, first) ^ second


def _product(first: int, other: int) -> int:
    """Multiply two polynomials over GF(2), modulo the polynomial of CRC-32. Their highest coefficients come first."""
    product, bit = 0, _ONE
    while bit:
        if first & bit:
            product ^= other
        bit >>= 1
        other = (other >> 1) ^ _POLYNOMIAL if other & 1 else other >> 1
    return product


_POWERS = tuple(accumulate(range(31), lambda power, _: _product(power, power), initial=_ONE >> 1))
"""The polynomials x to the power of 1, 2, 4, 8, … 2³¹, modulo the polynomial of CRC-32."""


def error_text(error: BaseException) -> str:
    """Describe an error by its class and message."""
    message = error_message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def body_member(data: bytes, mask: Callable[[bytes], bytes]) -> str:
    """Return the body of a plain response as a member of a record.

    The member is `body` if the body is JSON, and otherwise the result of `text_member`.
    """
    try:
        text = data.decode()
        parse(text)
    except ours(UnicodeDecodeError, NotJsonError):
        return text_member(data, mask)
    return f'"body":{one_line(text)}'


def text_member(data: bytes, mask: Callable[[bytes], bytes]) -> str:
    """Return bytes as a member of a record: `text` if they are UTF-8, or else `base64` of the masked bytes."""
    try:
        return f'"text":{json.dumps(data.decode(), ensure_ascii=False)}'
    except ours(UnicodeDecodeError):
        return f'"base64":"{base64.b64encode(mask(data)).decode()}"'
