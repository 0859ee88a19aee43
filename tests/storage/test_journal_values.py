"""Values in journals beyond strict JSON, which older journals and other writers have."""

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
    """The CRC shows that the writer meant the line, so Python's json reads it, with the same types."""
    [record] = records(whole_line(value))

    assert (record.data["value"], type(record.data["value"])) == (expected, type(expected))


def test_too_deep_nesting_is_not_a_record() -> None:
    """Two of the allowed levels are the line's own. Brackets within a text do not count."""
    deepest = MAX_DOCUMENT_DEPTH - 2
    nested = [b"[" * levels + b"]" * levels for levels in (deepest, deepest + 1)]
    quoted = b'"' + b"[" * 2 * MAX_DOCUMENT_DEPTH + b'"'

    found = [(len(records(line)), len(damages(line))) for line in map(whole_line, [*nested, quoted])]

    assert found == [(1, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize("members", [b'"kind":7,"data":{}', b'"kind":"note","data":[]', b'"kind":"note"'])
def test_a_line_without_a_kind_and_an_object_as_data_is_no_record(members: bytes) -> None:
    """A right CRC is not enough: the kind is a string, and the data is an object."""
    text = b'{"seq":1,"time":"t",' + members
    line = b'%s,"crc":"%08x"}\n' % (text, crc32(text))

    assert (len(records(line)), len(damages(line))) == (0, 1)
