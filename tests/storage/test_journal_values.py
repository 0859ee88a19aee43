"""Values that are not strict JSON, in older journals and in those of other writers."""

from __future__ import annotations

import math
from zlib import crc32

import pytest

from tests.storage.journal_lines import damages, records
from trace_recorder.values.json_text import MAX_DOCUMENT_DEPTH
from trace_recorder.values.messages import Payload


def whole_line(value: bytes) -> bytes:
    """Return a line with a correct CRC and this JSON as its data."""
    facts = b'{"seq":1,"time":"t","kind":"item","data":{"value":' + value + b"}"
    return b'%s,"crc":"%08x"}\n' % (facts, crc32(facts))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (rb'"half of a pair: \ud83d"', "half of a pair: \ud83d"),
        (b'"not UTF-8: \xed\xa0\xbd"', "not UTF-8: \ud83d"),
        (b"-Infinity", -math.inf),
        (b"1e400", math.inf),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"18446744073709551616", 2**64),
        (b"1e16", 1e16),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_values_that_strict_parsers_refuse_are_read(value: bytes, expected: Payload) -> None:
    """A line with a correct CRC whose JSON strict parsers refuse is read by Python's json, with the same types."""
    [record] = records(whole_line(value))

    assert (record.data["value"], type(record.data["value"])) == (expected, type(expected))


def test_too_deep_nesting_is_not_a_record() -> None:
    """A line nested too deeply is not a record.

    The line itself takes two of the levels, and brackets in strings none.
    """
    deepest = MAX_DOCUMENT_DEPTH - 2
    nested = [b"[" * levels + b"]" * levels for levels in (deepest, deepest + 1)]
    quoted = b'"' + b"[" * 2 * MAX_DOCUMENT_DEPTH + b'"'

    found = [(len(records(line)), len(damages(line))) for line in map(whole_line, [*nested, quoted])]

    assert found == [(1, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("members", [b'"kind":7,"data":{}', b'"kind":"note","data":[]', b'"kind":"note"'])
def test_a_line_without_a_kind_and_an_object_as_data_is_no_record(members: bytes) -> None:
    """A line with a correct CRC is a record only if its kind is a string and its data an object."""
    text = b'{"seq":1,"time":"t",' + members
    line = b'%s,"crc":"%08x"}\n' % (text, crc32(text))

    assert (len(records(line)), len(damages(line))) == (0, 1)
