"""Keeps the texts of the records about the run itself: the first record and the annotations.

If a later request shows a secret, such as an API key, the texts that contain the secret are masked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MAX_REMEMBERED_CHARS = 256 * 1024
"""`RunTexts` keeps at most this many characters. A text for which there is no room is not masked again."""


@dataclass(slots=True)
class RunTexts:
    """The texts of the start record and the annotations, each as it was last masked, by the numbers of the records."""

    _texts: dict[int, str] = field(default_factory=dict)
    _size: int = 0

    def keep(self, seq: int, text: str) -> None:
        """Keep the text of a record, if there is room for it."""
        if self._size + len(text) <= MAX_REMEMBERED_CHARS:
            self._texts[seq] = text
            self._size += len(text)

    def mask_again(self, mask: Callable[[str], tuple[str, int]]) -> Iterator[tuple[int, str, int]]:
        """For each text that `mask` changes now, yield the record's number, the new text, and how many masks it has."""
        for seq, text in list(self._texts.items()):  # a signal handler may add a text meanwhile
            masked, count = mask(text)
            if masked != text:
                self._texts[seq] = masked
                self._size += len(masked) - len(text)
                yield seq, masked, count
