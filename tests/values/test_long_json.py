"""Long JSON is read and written in short slices in a background thread, with the same result as in one piece."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from trace_recorder.background_work import MAX_UNINTERRUPTED_CHARS, current_yield
from trace_recorder.values.json_text import NotJsonError, check_depth, make_json_writer, parse, split_members
from trace_recorder.values.messages import Payload

STEP = MAX_UNINTERRUPTED_CHARS
AROUND_A_STEP = range(STEP - 8, STEP + 3)
WRITE = make_json_writer(", ", ": ", yields=True)


@contextmanager
def background(pause: Callable[[], None]) -> Iterator[None]:
    """Treat this thread as a background thread."""
    token = current_yield.set(pause)
    try:
        yield
    finally:
        current_yield.reset(token)


def pauses(work: Callable[[], object]) -> int:
    """Return how often work pauses in the background."""
    found: list[None] = []
    with background(lambda: found.append(None)):
        work()
    return len(found)


@pytest.mark.parametrize("awkward", ['"', "\\", "\n", "é😀", "\ud83d"], ids=ascii)
def test_a_long_string_is_written_the_same_in_slices(awkward: str) -> None:
    """A long string is written the same, whether a slice ends before, after or between escaped characters."""
    for before in AROUND_A_STEP:
        value = {"a": "x" * before + awkward * 3 + "y" * STEP}
        with background(lambda: None):
            assert WRITE(value) == json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    "value",
    [
        [number / 7 for number in range(STEP // 4)],
        list(range(STEP)),
        [{"name": "a"} for _ in range(STEP // 4)],
        {"one": "long " * STEP, "several": ["x" * STEP, {"a": [1.5, True, None]}]},
    ],
)
def test_long_json_is_read_the_same_in_slices(value: Payload) -> None:
    """JSON of numbers, objects and strings is read the same in slices, with more pauses for a longer text."""
    text = json.dumps(value)

    with background(lambda: None):
        assert parse(text) == value
    assert pauses(lambda: parse(text)) > 4


@pytest.mark.parametrize("inside", ['"', '\\"', "\\\\", "[", '"]', "a"])
def test_depth_is_found_wherever_a_slice_ends(inside: str) -> None:
    """The depth of nesting is right if a string with brackets crosses two slices."""
    for before in AROUND_A_STEP:
        said = json.dumps("x" * before + inside * 3 + "y" * 100)
        check_depth("[" * 150 + said + "]" * 150 + "[]" * 200, 200)
        with pytest.raises(NotJsonError):
            check_depth(f"[{said}," + "[" * 200 + "]" * 201, 200)


@pytest.mark.parametrize("before", AROUND_A_STEP)
def test_half_of_a_surrogate_pair_is_found_wherever_a_slice_ends(before: int) -> None:
    """The escape of a lone surrogate is found even if it crosses the end of a slice."""
    with pytest.raises(NotJsonError):
        parse('"' + "x" * before + '\\ud83d"')


def test_reading_with_a_lock_does_not_pause() -> None:
    """Reading under the run's lock does not pause, because other calls of the run wait for the lock."""
    text = json.dumps({"messages": [{"content": "x" * 3 * STEP, "numbers": [1.5] * STEP}], "n": list(range(STEP))})

    assert pauses(lambda: split_members(text)) == 0
