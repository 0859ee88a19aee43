"""Where the chunks of a stream ended and when each came, as two short texts beside a part of its text.

`chunk_ends` says where, in the part's text as it is on file: for each chunk how many newlines it goes over and, behind
a `+`, how many bytes more, where it does not end with a newline; `2*50` is fifty chunks of two lines. A provider sends
whole events, so that a stream takes some bytes, and masks, which leave lines where they are, move nothing. A chunk
that ended within a mask ends behind it.

`chunk_times` says when, in milliseconds: the first since the request was sent, each other since the one before, as
unsigned base64 VLQ (digits of five bits, the lowest first, of which all but the last have 32 added).

Each part says the pieces of chunks in it, and nothing else of its text is left over. Where a part ends within a chunk,
the next one begins with the rest, and says so (`continues`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, islice

from trace_recorder.values.messages import Payload

TimedBytes = tuple[float, bytes]
"""When it came, in seconds on some clock or since the request, and what."""

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_CONTINUATION = 32
"""What is added to a digit that is not the last of its number."""
_MAX_WEIGHT = _CONTINUATION**9
"""That of the last digit of a number with ten, which is a million years."""


def split_at(pieces: Sequence[TimedBytes], end: int) -> tuple[list[TimedBytes], list[TimedBytes], bool]:
    """Split what came at a byte: what is before, what is behind, and whether that cuts a chunk in two."""
    before: list[TimedBytes] = []
    for number, (at, data) in enumerate(pieces):
        if not data:
            continue
        if len(data) > end:
            behind = [(at, data[end:]), *pieces[number + 1 :]]
            return (before if end == 0 else [*before, (at, data[:end])]), behind, end > 0
        before.append((at, data))
        end -= len(data)
    return before, [], False


def describe_chunks(pieces: Sequence[TimedBytes], began: float, masked: bytes) -> dict[str, Payload]:
    """Say of a part of a stream where its pieces ended and when they came; `masked` is its text as it is written."""
    raw = b"".join([data for _, data in pieces])
    ends = list(accumulate(len(data) for _, data in pieces))
    if raw != masked:
        ends = list(_positions_in_masked(raw, masked, ends))
    return {"chunk_ends": _encode_ends(masked, ends), "chunk_times": _encode_times([at - began for at, _ in pieces])}


def read_chunks(parts: Iterable[tuple[bytes, Mapping[str, Payload]]]) -> tuple[TimedBytes, ...]:
    """The chunks of a stream from its parts, each a text and the data of its record.

    Raises ValueError, KeyError or TypeError where a part does not say, or says something else than its text.
    """
    found: list[TimedBytes] = []
    for text, data in parts:
        times = list(_decode_times(_require_text(data["chunk_times"])))
        ends = list(
            islice(_decode_ends(_require_text(data["chunk_ends"]), text), len(times) + 1)
        )  # a run may claim any number
        if len(ends) != len(times):
            raise ValueError(f"there are {len(times)} times of other than so many chunks")
        pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if data.get("continues") and found and pieces:
            pieces[0] = found[-1][1] + pieces[0]
            times[0] = found.pop()[0]
        found += zip(times, pieces, strict=True)
    return tuple(found)


def _encode_ends(text: bytes, ends: Sequence[int]) -> str:
    words = []
    for start, end in zip([0, *ends], ends, strict=False):
        lines = text.count(b"\n", start, end)
        rest = end - max(start, text.rfind(b"\n", start, end) + 1)
        words.append(f"{lines or ''}+{rest}" if rest else str(lines))
    runs = ((word, sum(1 for _ in same)) for word, same in groupby(words))
    return ",".join(f"{word}*{count}" if count > 1 else word for word, count in runs)


def _decode_ends(said: str, text: bytes) -> Iterator[int]:
    at = 0
    for run in said.split(",") if said else ():
        word, _, count = run.partition("*")
        lines, _, rest = word.partition("+")
        for _ in range(_parse_count(count or "1")):
            for _ in range(_parse_count(lines)):
                at = text.index(b"\n", at) + 1
            at += _parse_count(rest)
            yield at
    if at != len(text):
        raise ValueError(f"the chunks end at {at} of {len(text)} bytes")


def _require_text(said: Payload) -> str:
    if not isinstance(said, str):
        raise TypeError(f"a text is {type(said).__name__}")
    return said


def _parse_count(digits: str) -> int:
    if digits.strip("0123456789"):
        raise ValueError(f"{digits!r} is no count")
    return int(digits or 0)


def _encode_times(seconds: Sequence[float]) -> str:
    at = 0
    digits = []
    for moment in seconds:
        since = max(0, round(moment * 1000) - at)
        at += since
        while since >= _CONTINUATION:
            digits.append(_DIGITS[_CONTINUATION + since % _CONTINUATION])
            since //= _CONTINUATION
        digits.append(_DIGITS[since])
    return "".join(digits)


def _decode_times(said: str) -> Iterator[float]:
    at = since = 0
    weight = 1
    for digit in said:
        value = _VALUES[digit]
        if weight > _MAX_WEIGHT:
            raise ValueError("a time is beyond all measure")
        since += value % _CONTINUATION * weight
        weight *= _CONTINUATION
        if value < _CONTINUATION:
            at += since
            since, weight = 0, 1
            yield at / 1000


def _positions_in_masked(raw: bytes, masked: bytes, ends: Sequence[int]) -> Iterator[int]:
    """Where these places of a text are after it was masked, line by line where it has as many lines as before."""
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
        at = end - starts[number]
        moved = max(moved, moved_starts[number] + (at if at <= head else len(new) - min(tail, len(old) - at)))
        yield moved


def _common_length(one: bytes, other: bytes) -> int:
    """How many bytes at the beginning of two texts are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
