"""Encodes the chunks of a stream for the journal: their text, compressed, and where and when each chunk ended.

A record has a part of the stream's text. `chunk_ends` states where each chunk of the part ends: how many newlines the
chunk has and, after a `+`, how many bytes follow its last newline. `2*50` means fifty chunks of two lines each.
Providers send whole events, so the member is short. `chunk_ends` has the ends in the masked text. Masking keeps all
newlines, so it changes only the ends of chunks that end inside a line. A chunk that ended inside a secret ends after
the mask.

`chunk_times` has the time of each chunk in milliseconds. The first time is counted from the request, and each following
time is counted from the chunk before. The numbers are written as unsigned base64 VLQ: digits of five bits, the lowest
first, and 32 is added to all digits but the last.

The chunks of a part cover its text completely. If a part ends inside a chunk, the next part begins with the rest of
that chunk, and has the member `continues`.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, islice, pairwise
from typing import NamedTuple

from trace_recorder.decompression import MAX_RATIO, max_size
from trace_recorder.facts import LLMStreamFact
from trace_recorder.values.messages import Payload

TimedBytes = tuple[float, bytes]
"""The time at which a chunk came, and its bytes.

The time is in seconds, counted from the request or from another fixed moment.
"""

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_CONTINUATION = 32
"""This value is added to each digit of a number, except to the last digit."""
_MAX_WEIGHT = _CONTINUATION**9
"""The tenth digit of a time counts units of this many milliseconds, about a thousand years.

A time may not have more digits.
"""


class SplitChunks(NamedTuple):
    """The chunks before and after a position. `is_cut` says whether a chunk was cut in two."""

    before: list[TimedBytes]
    after: list[TimedBytes]
    is_cut: bool


def split_at(pieces: Sequence[TimedBytes], end: int) -> SplitChunks:
    """Split chunks after `end` bytes."""
    before: list[TimedBytes] = []
    for number, (time, data) in enumerate(pieces):
        if not data:
            continue
        if len(data) > end:
            after = [(time, data[end:]), *pieces[number + 1 :]]
            if end > 0:
                before.append((time, data[:end]))
            return SplitChunks(before, after, is_cut=end > 0)
        before.append((time, data))
        end -= len(data)
    return SplitChunks(before, [], is_cut=False)


def describe_chunks(pieces: Sequence[TimedBytes], began: float, masked: bytes) -> dict[str, Payload]:
    """Return the members `chunk_ends` and `chunk_times` for a part of a stream.

    `masked` is the text of the part on file. `began` is the time of the request.
    """
    texts = [data for _, data in pieces]
    raw = b"".join(texts)
    if raw != masked:
        ends = [*_positions_in_masked(raw, masked, [*accumulate([len(data) for data in texts])])]
        texts = [masked[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return {"chunk_ends": _encode_ends(texts), "chunk_times": _encode_times([at - began for at, _ in pieces])}


def read_chunks(parts: Iterable[tuple[bytes, LLMStreamFact]]) -> tuple[TimedBytes, ...]:
    """Return the chunks of a stream from its parts.

    Each part is a text and its fact. Raises KeyError or ValueError if a fact has no `chunk_ends` or `chunk_times`, or
    if they do not fit the text.
    """
    chunks: list[TimedBytes] = []
    for text, fact in parts:
        if fact.chunk_ends is None or fact.chunk_times is None:
            raise KeyError("chunk_ends")
        times = list(_decode_times(fact.chunk_times))
        # a hostile file may state any number of chunks
        ends = list(islice(_decode_ends(fact.chunk_ends, text), len(times) + 1))
        if len(ends) != len(times):
            raise ValueError(f"there are {len(times)} times, but a different number of chunks")
        pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if fact.continues and chunks and pieces:
            pieces[0] = chunks[-1][1] + pieces[0]
            times[0] = chunks.pop()[0]
        chunks += zip(times, pieces, strict=True)
    return tuple(chunks)


def ends_after_change(text_of_ends: str, text: bytes, changed: bytes) -> str:
    """Return `chunk_ends` for a part whose text was changed after it was recorded, without a change of its newlines.

    Raises ValueError if the ends do not fit the text.
    """
    ends = [*islice(_decode_ends(text_of_ends, text), len(text) + 1)]
    new_ends = [*_positions_in_masked(text, changed, ends)]
    return _encode_ends([changed[start:end] for start, end in zip([0, *new_ends], new_ends, strict=False)])


def _encode_ends(texts: Sequence[bytes]) -> str:
    words = []
    ends = [(text.count(b"\n"), len(text) - text.rfind(b"\n") - 1) for text in texts]
    for (lines, rest), same in groupby(ends):
        word = str(lines)
        if rest:
            word = f"{lines or ''}+{rest}"
        count = len([*same])
        if count > 1:
            word += f"*{count}"
        words.append(word)
    return ",".join(words)


def _decode_ends(text_of_ends: str, text: bytes) -> Iterator[int]:
    position = 0
    runs = text_of_ends.split(",") if text_of_ends else []
    for run in runs:
        word, _, count = run.partition("*")
        lines, _, rest = word.partition("+")
        for _ in range(_parse_count(count or "1")):
            for _ in range(_parse_count(lines)):
                position = text.index(b"\n", position) + 1
            position += _parse_count(rest)
            yield position
    if position != len(text):
        raise ValueError(f"the chunks end at {position} of {len(text)} bytes")


def _parse_count(digits: str) -> int:
    if digits.strip("0123456789"):
        raise ValueError(f"{digits!r} is not a count")
    return int(digits or 0)


def _encode_times(seconds: Sequence[float]) -> str:
    # by `max`, no chunk gets a time before that of an earlier chunk
    moments = accumulate([round(moment * 1000) for moment in seconds], max, initial=0)
    digits = []
    for earlier, later in pairwise(moments):
        step = later - earlier
        while step >= _CONTINUATION:
            digits.append(_DIGITS[_CONTINUATION + step % _CONTINUATION])
            step //= _CONTINUATION
        digits.append(_DIGITS[step])
    return "".join(digits)


def _decode_times(text_of_times: str) -> Iterator[float]:
    position = since = 0
    weight = 1
    for digit in text_of_times:
        value = _VALUES[digit]
        if weight > _MAX_WEIGHT:
            raise ValueError("a time is too large")
        since += value % _CONTINUATION * weight
        weight *= _CONTINUATION
        if value < _CONTINUATION:
            position += since
            since, weight = 0, 1
            yield position / 1000


def _positions_in_masked(raw: bytes, masked: bytes, ends: Sequence[int]) -> Iterator[int]:
    """Yield the position in the masked text that corresponds to each of these ends of chunks in the raw text.

    If both texts have the same number of lines, each line is compared with its masked line only.
    """
    before, after = raw.split(b"\n"), masked.split(b"\n")
    if len(before) != len(after):
        before, after = [raw], [masked]
    starts, moved_starts = ([0, *accumulate(len(line) + 1 for line in lines)] for lines in (before, after))
    compared: dict[int, tuple[int, int]] = {}
    moved = 0
    for end in ends:
        number = bisect_right(starts, end) - 1
        old, new = before[number], after[number]
        if number not in compared:
            compared[number] = _common_length(old, new), _common_length(old[::-1], new[::-1])
        head, tail = compared[number]
        position = end - starts[number]
        if position > head:
            position = len(new) - min(tail, len(old) - position)
        moved = max(moved, moved_starts[number] + position)
        yield moved


def _common_length(first: bytes, other: bytes) -> int:
    """Return how many bytes at the beginning of two texts are the same."""
    low, high = 0, min(len(first), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def joined_bytes(pieces: list[TimedBytes]) -> bytes:
    """Return the bytes of all chunks, joined."""
    return b"".join([data for _, data in pieces])


def first_pieces(pieces: list[TimedBytes], size: int) -> list[TimedBytes]:
    """Return the first chunks that together have at least `size` bytes. Return all chunks if they have fewer bytes."""
    total = 0
    for number, (_, data) in enumerate(pieces[:], 1):
        total += len(data)
        if total >= size:
            return pieces[:number]
    return pieces[:]


def packed(data: bytes, level: int) -> str:
    """Return a part's text, compressed by zlib and encoded in base64.

    If the compressed text is so short that readers would refuse it, the text is stored in zlib's form without
    compression.
    """
    compressed = zlib.compress(data, level)
    if len(data) > MAX_RATIO * len(compressed):
        compressed = zlib.compress(data, 0)
    return base64.b64encode(compressed).decode()


def unpacked(text: str) -> bytes:
    """Return the text of a part that `packed` has packed.

    Raises ValueError, TypeError or zlib.error if it is not such a text, is cut off, or is too large.
    """
    data = base64.b64decode(text)
    stream = zlib.decompressobj()
    inflated = stream.decompress(data, max_size(len(data)) + 1)
    if not stream.eof:
        raise ValueError("a part of a stream is cut off, or too large")
    return inflated
