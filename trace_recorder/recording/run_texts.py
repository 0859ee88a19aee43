"""Keeps the texts of the records about the run itself: the first record and the annotations.

If a later request shows a secret, such as an API key, the texts that contain the secret are masked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trace_recorder.facts import RedactionFact
from trace_recorder.storage.fact_writer import FactText, fact_text
from trace_recorder.values.structs import Struct, field, replace

MAX_REMEMBERED_CHARS = 256 * 1024
"""`RunTexts` keeps at most this many characters. A text for which there is no room is not masked again."""


class RunTexts(Struct):
    """The texts of the start record and the annotations, each as it was last masked, by the numbers of the records."""

    _texts: dict[int, str] = field(default_factory=dict)
    _size: int = 0

    def keep(self, seq: int, text: str) -> None:
        """Keep the text of a record, if there is room for it."""
        if self._size + len(text) <= MAX_REMEMBERED_CHARS:
            self._texts[seq] = text
            self._size += len(text)

    def mask_again(self, mask: Callable[[FactText], FactText]) -> Iterator[FactText]:
        """For each text that `mask` changes now, yield the masked text of a `RedactionFact`."""
        for seq, text in list(self._texts.items()):  # a signal handler may add a text meanwhile
            masked = mask(replace(fact_text(RedactionFact(of=seq)), foreign=text))
            if masked.foreign != text:
                self._texts[seq] = masked.foreign
                self._size += len(masked.foreign) - len(text)
                yield masked
