"""Frames: events and lines are cut out of a stream's text as the standard says, wherever the text ends."""

from __future__ import annotations

import pytest

from trace_recorder.dialects.stream_framing import events, json_lines, unstreamed
from trace_recorder.values.messages import JoinedStream


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: a\n\ndata: b\n\n", [(None, "a"), (None, "b")]),
        ("event: ping\ndata: a\n\ndata: b\n\n", [("ping", "a"), (None, "b")]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", [(None, "a"), (None, "b")]),
        ("data: a\r\rdata: b\r\r", [(None, "a"), (None, "b")]),
        (": OPENROUTER PROCESSING\n\ndata: a\n\n: again\n\n", [(None, "a")]),
        ("data: a\ndata: b\ndata:\n\n", [(None, "a\nb\n")]),
        ("data:a\n\ndata:  b\n\n", [(None, "a"), (None, " b")]),
        ("data\n\ndata:\n\n", [(None, ""), (None, "")]),
        ("event: ping\n\ndata: a\n\n", [(None, "a")]),
        ("id: 1\nretry: 5\nunheard: of\ndata: a\n\n", [(None, "a")]),
        ("\ufeffdata: a\n\n", [(None, "a")]),
        ("data: a\u2028b\x85c\n\n", [(None, "a\u2028b\x85c")]),
        ("data: a\n\ndata: b", [(None, "a"), (None, "b")]),
        ("event: end\ndata: a\n", [("end", "a")]),
        ("event:\ndata: a\n\n", [(None, "a")]),
        ("data: a\n\nda", [(None, "a")]),
        ("", []),
        ('{"error": {}}', []),
    ],
)
def test_events(text, expected):
    """Lines become events: line ends of all kinds, comments, several data lines, an end without an empty line."""
    assert list(events(text)) == expected


def test_json_lines():
    """Lines that are not blank are given as they are, cut at line ends only."""
    assert list(json_lines('\ufeff{"a": 1}\r\n\n \n{"b": "\u2028"}\n{"c"')) == ['{"a": 1}', '{"b": "\u2028"}', '{"c"']


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": "x"}', JoinedStream({"id": "x"}, ended=True, events=0)),
        ('{"error": {"code": 1}}', JoinedStream({"error": {"code": 1}}, True, 0, error={"code": 1})),
        ("", JoinedStream({}, ended=False, events=0)),
        ("<html>", JoinedStream({}, ended=False, events=0)),
    ],
)
def test_a_body_where_a_stream_was_due(text, expected):
    """One JSON body in a stream's place, such as an error, is that body, whole; anything else is nothing."""
    assert unstreamed(text) == expected
