"""Framing: events, lines and AWS's frames are read from a stream, wherever the stream ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.seams.frames import CLAUDE, CONVERSE, frame, wrapped
from trace_recorder.dialects.stream_framing import FrameDecoder, encode_line, events, json_lines, unstreamed
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
def test_events_are_read_from_lines(text, expected):
    """Line ends of all kinds, comments, several data lines, and an end without an empty line are read."""
    assert list(events(text)) == expected


def test_json_lines_are_read():
    """Lines that are not blank are returned unchanged, cut at line ends only."""
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
def test_a_body_in_place_of_a_stream_is_read(text, expected):
    """A JSON body, such as an error, in place of a stream is read as that body. Any other text is an empty body."""
    assert unstreamed(text) == expected


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=10,
)
NAMES = some.text(alphabet=some.characters(codec="utf-8"), max_size=20)


FRAMES = some.lists(some.builds(frame, NAMES, JSON) | some.builds(wrapped, JSON), max_size=5)


@given(frames=FRAMES, size=some.integers(1, 99))
def test_frames_survive_as_lines(frames: list[bytes], size: int) -> None:
    """The lines give the same bytes again, whatever the frames contain and wherever they are cut."""
    decode, data = FrameDecoder(), b"".join(frames)
    lines = b"".join(decode(data[at : at + size]) for at in range(0, len(data), size)).decode()

    assert lines.count("\n") == len(frames)
    assert b"".join(map(encode_line, lines.split("\n")[:-1])) == data


@pytest.mark.parametrize("frames", [CONVERSE, CLAUDE], ids=["Converse", "InvokeModel"])
def test_an_incomplete_frame_waits(frames: list[bytes]) -> None:
    """The line of a frame is returned with the frame's last byte."""
    decode = FrameDecoder()

    assert (decode(frames[0][:-1]), decode(frames[0][-1:]).count(b"\n")) == (b"", 1)


def test_frames_before_a_damaged_frame_are_kept() -> None:
    """The intact frames are returned, and the next bytes raise."""
    decode = FrameDecoder()

    assert decode(CONVERSE[0] + b"x" * 40).count(b"\n") == 1
    with pytest.raises(ValueError, match="frame of an event stream"):
        decode(b"x")


@pytest.mark.parametrize("place", [0, 5, 9, 14, 40, -1])
def test_a_damaged_frame_is_refused(place: int) -> None:
    """A wrong length or CRC raises an error, and no content is made up."""
    data = bytearray(CONVERSE[0])
    data[place] ^= 0x55

    with pytest.raises(ValueError, match="frame of an event stream"):
        FrameDecoder()(bytes(data))
