"""Two texts compared by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from trace_recorder.views.comparison.changed_ranges import changed_ranges

MAX_SHOWN_CHARACTERS = 400
"""A removed or added text is shown with up to this many characters."""
MAX_SHOWN_AROUND = 6
"""How many words around a change are shown."""
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of two texts: in both, only in the first (`removed`), or only in the second (`added`)."""

    kind: Literal["same", "removed", "added"]
    text: str

    def to_dict(self) -> dict[str, str]:
        """Render as JSON."""
        return asdict(self)


def word_changes(before: str, after: str) -> list[Fragment]:
    """Return the parts of two texts in order.

    The common and removed parts make up `before`, the common and added ones `after`.
    """
    parts: list[Fragment] = []
    for same, removed, added in _aligned(_WORD.findall(before), _WORD.findall(after)):
        parts += [Fragment("same", "".join(same)), Fragment("removed", "".join(removed))]
        parts.append(Fragment("added", "".join(added)))
    return [part for part in parts if part.text]


def marked_words(before: str, after: str) -> str:
    """Return two texts as one: `[-removed words-]`, `{+added words+}`, and a few words around each."""
    return "".join(part.text for part in marked_parts(before, after))


def marked_parts(before: str, after: str) -> Iterator[Fragment]:
    """Yield the parts of which `marked_words` consists."""
    rows = [*_aligned(_WORD.findall(before), _WORD.findall(after))]
    for at, (same, removed, added) in enumerate(rows):
        last = at == len(rows) - 1 and not removed and not added
        yield Fragment("same", _around(same, first=at == 0, last=last))
        if removed:
            yield Fragment("removed", f"[-{shortened(''.join(removed))}-]")
        if added:
            yield Fragment("added", f"{{+{shortened(''.join(added))}+}}")


Words = Sequence[str]


def _aligned(before: Words, after: Words) -> Iterator[tuple[Words, Words, Words]]:
    """Yield common words, and after them the words that only the first text has and those that only the second has."""
    position = 0
    for start, end, now, until in changed_ranges(before, after):
        yield before[position:start], before[start:end], after[now:until]
        position = end
    if position < len(before):
        yield before[position:], (), ()


def _around(words: Words, *, first: bool, last: bool) -> str:
    """Return unchanged words. If they are many, only those next to the changes are returned."""
    if len(words) <= 2 * MAX_SHOWN_AROUND:
        return "".join(words)
    head = "" if first else "".join(words[:MAX_SHOWN_AROUND])
    tail = "" if last else "".join(words[-MAX_SHOWN_AROUND:])
    return f"{head}…{tail}"


def shortened(text: str) -> str:
    """Return a text, without its middle if it is long."""
    half = MAX_SHOWN_CHARACTERS // 2
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:half]} … {text[-half:]}"
