"""Reads the records of a journal.

Any bytes can be read: bytes that are not a record become a `BadLine`. A line is a record only if its CRC-32 matches.
Nothing else in the line is trusted. Whole records inside a damaged line are found too. `journal.py` describes the
format of a line, and `fact_reader.py` makes the fact of a record.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, yield_to_others
from trace_recorder.facts import Fact
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.fact_reader import fact_decoder, read_fact
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH, check_depth
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct

SCHEMA: Final = "trace-recorder/journal"
VERSION = 1
LINE_BEGIN = '{"seq":'
"""The beginning of the line of each record."""

_LINE_BEGIN = LINE_BEGIN.encode()
_HEAD = lazy_pattern(
    rb'\{"seq":(?P<seq>0|[1-9]\d{0,17}),"time":"(?P<time>[ !#-\[\]-~]*)","kind":"(?P<kind>\w{1,40})","data":'
)
"""Matches the beginning of a line as the writer writes it. A line of any other form takes longer to parse."""
_CRC_LENGTH = len(',"crc":"00000000"}')
_BOUNDARY = lazy_pattern(rb'\{"seq":\d+,"time":"[^"]*","kind":"|,"crc":"[0-9a-f]{8}"\}')
"""Matches the beginning, or the end, of a record inside a damaged line."""
_MAX_STARTS = 8
"""For each possible end of a record in a damaged line, at most this many possible beginnings are tried.

The nearest beginning is tried first. It is wrong only if the record quotes another record.
"""
_MAX_ATTEMPTS = 1000
"""A damaged line is not searched further after this many pairs of a beginning and an end that were not a record."""
_WHY_DAMAGED = "not a record, or its CRC does not match"
_WHY_TORN = "the file ends in the middle of a record"
try:
    from msgspec import MsgspecError
except ImportError:  # in an interpreter that has only the standard library
    MsgspecError = ValueError  # type: ignore[assignment, misc]


class Record(Struct, frozen=True, gc=False):
    """One line of a journal.

    `offset` is where it begins in the file, and `length` is its length without the newline, both in bytes. `faults`
    describes each member that was ill-typed, and so is not in `fact`.
    """

    seq: int
    time: str
    kind: str
    fact: Fact
    offset: int
    length: int
    faults: tuple[str, ...] = ()


class BadLine(Struct, frozen=True):
    """Bytes of a journal that are not a record.

    `offset` and `length` are in bytes, and `why` is the reason for people. `torn` is True if these bytes are at the end
    of the file, without a newline.
    """

    offset: int
    length: int
    why: str
    torn: bool


def read_records(data: bytes, base: int = 0) -> Iterator[Record | BadLine]:
    """Return the records in bytes of a journal in order, and a `BadLine` for other bytes.

    `data` begins at the offset `base` of the journal.
    """
    records: list[Record | BadLine] = []  # a generator would cost one more call for each record
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        line = data[start:] if end < 0 else data[start:end]
        record = None
        if line:
            record = _parse_record(line, base + start)
        if record is None and line.endswith(b"\r"):  # a program on Windows converted the ends of the lines
            record = _parse_record(line[:-1], base + start)
        if record is not None:
            records.append(record)
        elif line:
            records += _read_damaged_line(line, base + start, torn=end < 0)
        start += len(line) + 1
    return iter(records)


def _read_damaged_line(line: bytes, offset: int, *, torn: bool) -> Iterator[Record | BadLine]:
    """Yield the whole records in a damaged line, and a `BadLine` for the other bytes.

    A record may follow a torn record, or a block of NULs, in the same line.
    """
    starts: deque[int] = deque(maxlen=_MAX_STARTS)
    done = attempts = 0
    for boundary in _BOUNDARY.finditer(line):
        if boundary[0].startswith(_LINE_BEGIN):
            starts.append(boundary.start())
            continue
        if attempts >= _MAX_ATTEMPTS:
            continue
        for start in reversed(starts):
            record = _parse_record(line[start : boundary.end()], offset + start)
            if record is not None:
                if start > done:
                    yield BadLine(offset + done, start - done, _WHY_DAMAGED, torn=False)
                yield record
                done = boundary.end()
                starts.clear()
                break
            attempts += 1
    if done < len(line):
        why = _WHY_TORN if torn else _WHY_DAMAGED
        yield BadLine(offset + done, len(line) - done, why, torn)


def _parse_record(line: bytes, offset: int) -> Record | None:
    """Parse one line. Return None if it is not a record, if its CRC does not match, or if it is nested too deeply.

    If the strict decoder refuses a line, Python's `json` parses it, because `json` accepts NaN and half of a surrogate
    pair. Then the fact is made member by member.
    """
    is_long = len(line) > MAX_UNINTERRUPTED_CHARS
    if is_long:
        yield_to_others()
    crc = crc32(memoryview(line)[:-_CRC_LENGTH])
    if line[-_CRC_LENGTH:] != b',"crc":"%08x"}' % crc or not line.startswith(_LINE_BEGIN):
        return None
    try:
        if len(line) > 2 * MAX_DOCUMENT_DEPTH and line.count(b"[") + line.count(b"{") > MAX_DOCUMENT_DEPTH:
            check_depth(line.decode("utf-8", "surrogatepass"), MAX_DOCUMENT_DEPTH)
        if is_long:
            yield_to_others()
        head = _HEAD.match(line)
        if head is None:
            return _read_record(line, offset)
        seq, time, kind_in_line = head.groups()
        kind = kind_in_line.decode()
        decode = fact_decoder(kind)
        if decode is None:
            return _read_record(line, offset)
        try:
            fact = decode(memoryview(line)[head.end() : -_CRC_LENGTH])
        except ours(MsgspecError, UnicodeDecodeError):
            return _read_record(line, offset)
        return Record(int(seq), time.decode(), kind, fact, offset, len(line))
    except ours(ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _read_record(line: bytes, offset: int) -> Record | None:
    """Parse a line, and make its fact member by member. Return None if the line is not a record."""
    fields = json_of_line(line)
    seq, moment, kind, data = fields["seq"], fields["time"], fields["kind"], fields["data"]
    if type(seq) is int and isinstance(moment, str) and isinstance(kind, str) and isinstance(data, dict):
        fact, faults = read_fact(kind, data)
        return Record(seq, moment, kind, fact, offset, len(line), faults)
    return None


def data_span(line: bytes) -> tuple[int, int] | None:
    """Return the span of the data in the line of a record. Return None if the line has not the form of our writer."""
    head = _HEAD.match(line)
    if head is None:
        return None
    return head.end(), len(line) - _CRC_LENGTH


def json_of_line(line: bytes) -> dict[str, Payload]:
    """Parse a line as JSON. Raises ValueError or RecursionError."""
    fields: dict[str, Payload] = json.loads(line.decode("utf-8", "surrogatepass"))
    return fields
