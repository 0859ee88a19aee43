"""Finds where a hostile text has so many possible secrets close together that examining each would take too long.

Such a part of a text is called a dense part. It is masked as one secret.
"""

from __future__ import annotations

import re

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.first_look import STEMS
from trace_recorder.storage.redaction.json_strings import BETWEEN, TEXT_END
from trace_recorder.values.structs import Struct

MOST_CLOSE = 12
CLOSE_KEYS, CLOSE_NAMES = 20, 40
"""Two beginnings of keys are close to each other if there are fewer than `CLOSE_KEYS` characters between them.

`CLOSE_NAMES` is the same limit for two names of secrets, and for two flags of commands.
"""


class Density(Struct, gc=False):
    """Tells whether the positions that a search has examined are too close together.

    It counts the examined positions, and subtracts one from the count for each `close` characters between them. The
    count exceeds `most` only in hostile texts. In 25,723 files (250 MB) of packages and documents, the count is
    at most four for beginnings of keys, and three for names.
    """

    close: int
    most: int = MOST_CLOSE
    is_dense: bool = False
    _at: int = 0
    _count: float = 0.0

    def add(self, position: int) -> bool:
        """Count a position. Return whether too many examined positions are close together here."""
        count = self._count - (position - self._at) / self.close
        self._at = position
        self._count = max(count, 0.0) + 1
        self.is_dense = self._count > self.most
        return self.is_dense

    def continue_after_mask(self, end: int) -> None:
        """Continue at the end of a secret that will be masked.

        Only the last `close` characters of the secret count as distance, about the length of a mask. Therefore the
        masked text is not denser than this count says.
        """
        self._at = max(self._at, end - self.close)


_DENSE_PART = lazy_pattern(r"[^\"\\]{0,200}+[^\"\\\f\n]{0,200}+[A-Za-z0-9+/_.=~:|@%!-]*+")
_LAST_NAME = lazy_pattern(
    r"(?: {0,3}[A-Za-z-]{3,20})?[ \t]{0,20}+(?:[:=>,]{1,2}|si|saw)?[ \t]{0,20}+['`\]]{0,2}[A-Za-z_-]{0,14}"
    rf"(?:{'|'.join(stem[::-1] for stem in STEMS)})[A-Za-z_.-]{{0,30}}(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
"""Matches, at the beginning of a reversed text, the reversed name of a secret.

The separator after the name and a word such as "Bearer" are matched too: `reraeB :nekot` for `token: Bearer`.
"""
_LONGEST_NAME = 80


def dense_end(text: str, position: int) -> int:
    """Return the end of the dense part that begins at or before a position.

    The part is masked as one secret. The part ends before the next quote or backslash, or else at the end of a word
    after 400 characters. If the part would end with the name of a secret, the part ends before that name, so that the
    value after the name is masked too.
    """
    end = position
    part = _DENSE_PART.match(text, position)
    if part is not None:
        end = part.end()
    text_end = text.rfind(TEXT_END, max(position, end - len(BETWEEN)), end)
    if text_end >= 0:
        end = text_end
    last = text[max(position, end - _LONGEST_NAME) : end]
    if any(map(last.lower().__contains__, STEMS)):  # the pattern takes long where it does not match
        name = _LAST_NAME.match(last[::-1])
        if name is not None and end - name.end() > position:
            end -= name.end()
    return end
