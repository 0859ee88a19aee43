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
from trace_recorder.values.json_text import NotJsonError, make_json_writer, one_line, strict_text
from trace_recorder.values.jsonable import error_message
from trace_recorder.values.messages import Payload

if TYPE_CHECKING:  # the command `list` reads no items, and must not import them
    from trace_recorder.storage.items.item_lists import NewItem

LARGE_DATA = 32 * 1024
"""Data with more characters than this is encoded before the record has a number."""


Data = str | tuple[bytes, ...]
"""A record's data: JSON text on one line, or its bytes in pieces, so that large pieces are not copied."""

Records = Sequence[tuple[str, Data]]
"""Records to write: the kind and the data of each."""

Line = tuple[bytes, ...]
"""The bytes of a line, in pieces that are written one after another."""

_LINE_BEGIN_BYTES = LINE_BEGIN.encode()
_dump = make_json_writer(",", ":", allow_nan=False)


def foreign_text(members: Mapping[str, Payload]) -> str:
    """Return the foreign members of a fact as JSON text without braces."""
    exact: list[str] = []
    others: dict[str, Payload] = {}
    for name, value in members.items():
        if type(value) is JsonText:
            exact.append(f'"{name}":{value.text}')
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


def item_records(new: Sequence[NewItem], masked: Sequence[tuple[str, int]]) -> list[tuple[str, Data]]:
    """Return the records of new items.

    `masked` has the members of each item after masking, and how many secrets were masked in them.
    """
    return [("item", _item_data(item, members, count)) for item, (members, count) in zip(new, masked, strict=False)]


def encoded_item_records(new: Sequence[NewItem], masked: Sequence[tuple[str, int]]) -> list[tuple[str, Data]]:
    """Do the same as `item_records`, and encode large data."""
    return [(kind, encode_data(data)) for kind, data in item_records(new, masked)]


def _item_data(item: NewItem, members: str, count: int) -> Data:
    if count:
        return f'{{{item.own_members},"redacted":{count},{members}}}'
    if item.value is not None and members is item.members_to_mask:
        return f'{{{item.own_members},"value":'.encode(), item.value, b"}"
    return f"{{{item.own_members},{members}}}"


def encode_data(data: Data) -> Data:
    """Encode a record's data if it is large. Return any other data unchanged."""
    if isinstance(data, tuple) or len(data) <= LARGE_DATA:
        return data
    return (_without_line_begins(data).encode(),)


def data_with_body(
    own: Mapping[str, Payload], foreign: Mapping[str, Payload], body: JsonText, mask: Callable[[str], tuple[str, int]]
) -> Data:
    """Mask and encode the members of a record whose foreign member `body` is large. The body is not copied.

    `mask` returns a text with its secrets masked, and how many they were.
    """
    text, count = mask(foreign_text({name: value for name, value in foreign.items() if name != "body"}))
    masked, in_body = mask(body.text)
    begin = record_data(own, f'{text},"body":' if text else '"body":', count + in_body)[:-1]
    exact = body.data if masked == body.text else None
    if exact is None or _LINE_BEGIN_BYTES in exact:
        exact = _without_line_begins(masked).encode()
    return _without_line_begins(begin).encode(), exact, b"}"


def encode_lines(records: Iterable[tuple[str, Data]], seq: int, time: str) -> Iterator[bytes]:
    """Yield the lines of records, which are numbered from `seq` on."""
    return map(b"".join, lines_in_pieces(records, seq, time))


def lines_in_pieces(records: Iterable[tuple[str, Data]], seq: int, time: str) -> list[Line]:
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
        text = one_line(strict_text(data))
    except NotJsonError:
        return text_member(data, mask)
    return {"body": JsonText(text, data if b"\n" not in data and b"\r" not in data else None)}


def text_member(data: bytes, mask: Callable[[bytes], bytes]) -> dict[str, Payload]:
    """Return bytes as a member of a fact: `text` if they are UTF-8, or else `base64` of the masked bytes."""
    try:
        return {"text": data.decode()}
    except ours(UnicodeDecodeError):
        return {"base64": base64.b64encode(mask(data)).decode()}
