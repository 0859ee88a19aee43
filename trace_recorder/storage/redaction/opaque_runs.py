"""Leaves the middle of long runs of base64 out of a text before it is searched: images, audio, files.

Every sign of a secret is found by a character that base64 does not have, or where a word begins, and reaches `KEPT`
characters from there at most. So of a long run the first and the last characters are searched, and what is between them
is not; known values are searched for in all of it (`known_values.py`). A run that may be decoded (`encodings.py`) stays
whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from trace_recorder.storage.redaction.encodings import LONGEST

KEPT = 1200
"""At least this many characters at each end of a run are searched."""
STEP = 1024
"""Runs are looked for at places at this distance."""

_RUN = re.compile(rf"[A-Za-z0-9+/]{{{LONGEST},}}+")


class Shortened:
    """A text without the middles of its long runs. `text` is the text itself if there are none."""

    __slots__ = ("_begins", "_removed", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._begins: list[int] = []
        if len(text) > LONGEST:
            self._cut(text)

    def _cut(self, text: str) -> None:
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
        if parts:
            self.text = "".join([*parts, text[done:]])
            self._begins = list(accumulate(map(len, parts)))
            self._removed = list(accumulate(removed, initial=0))

    def is_cut(self) -> bool:
        """Whether anything is left out."""
        return bool(self._begins)

    def places(self, places: list[int]) -> list[int]:
        """Return the positions in the whole text of positions in the shortened one."""
        return [at + self._removed[bisect_right(self._begins, at)] for at in places]
