"""AWS's frames become lines and frames again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.seams.frames import CLAUDE, CONVERSE, frame, wrapped
from trace_recorder.dialects.stream_framing import FrameDecoder, encode_line

JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=10,
)
NAMES = some.text(alphabet=some.characters(codec="utf-8"), max_size=20)


FRAMES = some.lists(some.builds(frame, NAMES, JSON) | some.builds(wrapped, JSON), max_size=5)


@given(frames=FRAMES, size=some.integers(1, 99))
def test_the_frames_of_the_lines_are_the_frames(frames: list[bytes], size: int) -> None:
    """The lines give the same bytes, whatever the frames contain and wherever they are cut."""
    decode, data = FrameDecoder(), b"".join(frames)
    lines = b"".join(decode(data[at : at + size]) for at in range(0, len(data), size)).decode()

    assert lines.count("\n") == len(frames)
    assert b"".join(map(encode_line, lines.split("\n")[:-1])) == data


@pytest.mark.parametrize("frames", [CONVERSE, CLAUDE], ids=["Converse", "InvokeModel"])
def test_a_frame_that_is_not_whole_waits(frames: list[bytes]) -> None:
    """The line of a frame comes with its last byte."""
    decode = FrameDecoder()

    assert (decode(frames[0][:-1]), decode(frames[0][-1:]).count(b"\n")) == (b"", 1)


def test_frames_before_a_damaged_one_are_kept() -> None:
    """The frames are returned, and the next bytes raise."""
    decode = FrameDecoder()

    assert decode(CONVERSE[0] + b"x" * 40).count(b"\n") == 1
    with pytest.raises(ValueError, match="frame of an event stream"):
        decode(b"x")


@pytest.mark.parametrize("place", [0, 5, 9, 14, 40, -1])
def test_a_damaged_frame_is_refused(place: int) -> None:
    """A wrong length or CRC is an error, and nothing is made up."""
    data = bytearray(CONVERSE[0])
    data[place] ^= 0x55

    with pytest.raises(ValueError, match="frame of an event stream"):
        FrameDecoder()(bytes(data))
