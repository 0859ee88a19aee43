"""The work grows with the length of the input, and not with its square.

Each text is taken once and then four times as long. The test counts the lines of our code that run: slightly more than
four times as many for the long text. A square would need sixteen times.
"""

from __future__ import annotations

import pytest

from tests.counting import lines
from tests.poison.growing import WORKS, work

SHORT = 2_000
FEW = 3_000
"""Below this number of lines growth cannot be distinguished from what any text takes."""


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, (_, texts) in WORKS.items() for name in texts])
def test_hostile_texts_take_no_square_work(kind: str, name: str) -> None:
    """Brackets, quotes, beginnings of keys that do not end, events and lines without end, in any number."""
    work(kind, name, SHORT)()  # what is made at the first use

    sooner, later = (lines(work(kind, name, size)) for size in (SHORT, 4 * SHORT))

    assert later <= max(6 * sooner, FEW)
