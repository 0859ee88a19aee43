"""The work grows with the length of the input, and not with its square.

Each text is processed once, and once at four times the length. The test counts the executed lines of our code: slightly
more than four times as many for the long text. Quadratic work would need sixteen times as many.
"""

from __future__ import annotations

import pytest

from tests.counting import lines
from tests.poison.growing import WORKS, work

SHORT = 1_000
FEW = 3_000
"""Below this number of lines, growth cannot be distinguished from the fixed work for any text."""


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, (_, texts) in WORKS.items() for name in texts])
def test_hostile_texts_take_linear_work(kind: str, name: str) -> None:
    """For any number of brackets, quotes, unfinished keys, events, or lines without an end, the work grows linearly."""
    work(kind, name, SHORT)()  # the first use does additional work

    sooner, later = (lines(work(kind, name, size)) for size in (SHORT, 4 * SHORT))

    assert later <= max(6 * sooner, FEW)
