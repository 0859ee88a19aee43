"""Leaves the middle of long runs of base64 out of a text before it is searched: images, audio, files.

Every sign of a secret is found by a character that base64 does not have, or where a word begins, and reaches `KEPT`
characters from there at most. So of a long run the first and the last characters are searched, and what is between them
is not; known values are searched for in all of it (`known_values.py`). A run that may be decoded (`encodings.py`) stays
whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from trace_recorder.storage.redaction.encodings import LONGEST

KEPT = 1200
"""At least this many characters at each end of a run are searched."""
STEP = 1024
"""Runs are looked for at places at this distance."""

_RUN = re.compile(rf"[A-Za-z0-9+/]{{{LONGEST},}}+")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text without the middles of its long runs: where each part after one begins, and what was left out before."""

    text: str
    begins: list[int]
    removed: list[int]

    def places(self, places: list[int]) -> list[int]:
        """Return the positions in the whole text of positions in the shortened one."""
        return [at + self.removed[bisect_right(self.begins, at)] for at in places]


def shorten(text: str) -> Shortened | None:
    """Leave out the middles of a text's long runs; return None if it has none."""
    parts: list[str] = []
    removed: list[int] = []
    done, at, size = 0, STEP, len(text)
    while at < size:
        run = _RUN.match(text, at)
        if run is None:
            at += STEP
            continue
        start, end = at + KEPT, run.end() - KEPT
        parts.append(text[done:start])
        removed.append(end - start)
        done, at = end, run.end() + 1
    if not parts:
        return None
    begins = list(accumulate(map(len, parts)))
    return Shortened("".join([*parts, text[done:]]), begins, list(accumulate(removed, initial=0)))
