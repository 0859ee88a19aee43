"""The work grows with the length of the input, and not with its square.

Each text is processed once, and once at four times the length. The test counts the executed lines of our code: slightly
more than four times as many for the long text. Quadratic work would need sixteen times as many.
"""

from __future__ import annotations

import pytest

from tests.counting import lines
from tests.poison.growing import WORKS, work

SHORT = 500
FEW = 3_000
"""Below this number of lines, growth cannot be distinguished from the fixed work for any text."""


@pytest.mark.parametrize("kind", WORKS)
def test_hostile_texts_take_linear_work(kind: str) -> None:
    """For any number of brackets, quotes, unfinished keys, events, or lines without an end, the work grows linearly."""
    executed = {}
    for name in WORKS[kind][1]:
        work(kind, name, SHORT)()  # the first use does additional work
        executed[name] = [lines(work(kind, name, size)) for size in (SHORT, 4 * SHORT)]

    assert {name: count for name, count in executed.items() if count[1] > max(6 * count[0], FEW)} == {}
