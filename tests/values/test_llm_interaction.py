"""The duration of a call with several attempts by an SDK, and the pauses between the attempts."""

from __future__ import annotations

import pytest

from trace_recorder.values.llm_interaction import Attempt, call_seconds, pause_between


def attempt(second: int | None, duration: float | None) -> Attempt:
    """Return an attempt that began at this second."""
    timestamp = None if second is None else f"2025-06-12T20:05:{second:02}+00:00"
    return Attempt(number=0, timestamp=timestamp, duration_seconds=duration)


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 9.0),
        ([attempt(10, 2.0)], 9.0),
        ([attempt(10, 2.0), attempt(15, 3.0)], 8.0),
        ([attempt(10, 2.0), attempt(13, 1.0), attempt(15, 3.0)], 8.0),
        ([attempt(10, None), attempt(15, 3.0)], 8.0),
        ([attempt(10, 2.0), attempt(15, None)], 9.0),
        ([attempt(10, 2.0), attempt(4, 3.0)], 5.0),
        ([attempt(None, 2.0), attempt(15, 3.0)], 5.0),
    ],
    ids=["none", "one", "two", "three", "the first without a duration", "the newest without one", "back", "no time"],
)
def test_the_duration_covers_attempts_and_pauses(attempts: list[Attempt], seconds: float) -> None:
    """The duration of a call covers its attempts and pauses.

    The recorded duration is used if the newest attempt has none, and a clock that was set back shortens nothing.
    """
    assert call_seconds(attempts, 9.0) == seconds


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        (attempt(10, 2.0), attempt(15, 3.0), 3.0),
        (attempt(10, 2.0), attempt(4, 3.0), 0.0),
        (attempt(10, None), attempt(15, 3.0), None),
        (attempt(None, 2.0), attempt(15, 3.0), None),
    ],
    ids=["two", "back", "no duration", "no time"],
)
def test_a_pause_is_between_two_attempts(before: Attempt, after: Attempt, seconds: float | None) -> None:
    """A pause is the time from the end of one attempt to the next, is never negative, and is unknown if that end is
    unknown.
    """
    assert pause_between(before, after) == seconds
