"""The comparison of two JSON values: the members and elements that were removed, added or changed, with their paths.

Two texts are compared by word (`word_changes`). Lists, and the words of texts, are aligned by `changed_ranges`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Literal

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.messages import Payload

MAX_PAIRS = 1_000_000
"""`changed_ranges` searches two ranges for common parts only if the product of their lengths is at most this.

Otherwise the whole ranges are one change.
"""


def changed_ranges(before: Sequence[Hashable], after: Sequence[Hashable]) -> Iterator[tuple[int, int, int, int]]:
    """Yield each difference of two sequences: its start and end in the first, and its start and end in the second.

    Common beginnings and ends are found in linear time.
    """
    begin = _common_length(before, after)
    end = _common_length(before[begin:][::-1], after[begin:][::-1])
    removed, added = before[begin : len(before) - end], after[begin : len(after) - end]
    if removed and added and len(removed) * len(added) <= MAX_PAIRS:
        matcher = SequenceMatcher(None, removed, added, autojunk=False)
        for kind, first, last, now, until in matcher.get_opcodes():
            if kind != "equal":
                yield begin + first, begin + last, begin + now, begin + until
    elif removed or added:
        yield begin, len(before) - end, begin, len(after) - end


def _common_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return how many elements at the beginning of two sequences are equal."""
    shorter = min(len(first), len(second))
    return next((place for place in range(shorter) if first[place] != second[place]), shorter)


MAX_SHOWN_CHARACTERS = 400
"""`shortened` keeps this many characters of a longer text: half at its beginning, and half at its end."""
MAX_SHOWN_AROUND = 6
"""If a sequence of unchanged words is long, `_words_near_changes` returns only this many words next to each change."""
_WORD = lazy_pattern(r"\s*(?:\w+|[^\w\s])|\s+")


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

    The common and the removed parts make up `before`. The common and the added parts make up `after`.
    """
    parts: list[Fragment] = []
    for same, removed, added in _aligned_words(_WORD.findall(before), _WORD.findall(after)):
        parts += [Fragment("same", "".join(same)), Fragment("removed", "".join(removed))]
        parts.append(Fragment("added", "".join(added)))
    return [part for part in parts if part.text]


def marked_words(before: str, after: str) -> str:
    """Return two texts as one: `[-removed words-]`, `{+added words+}`, and a few words around each change."""
    return "".join(part.text for part in marked_parts(before, after))


def marked_parts(before: str, after: str) -> Iterator[Fragment]:
    """Yield the parts of the text that `marked_words` returns."""
    rows = [*_aligned_words(_WORD.findall(before), _WORD.findall(after))]
    for number, (same, removed, added) in enumerate(rows):
        is_last = number == len(rows) - 1 and not removed and not added
        yield Fragment("same", _words_near_changes(same, first=number == 0, last=is_last))
        if removed:
            yield Fragment("removed", f"[-{shortened(''.join(removed))}-]")
        if added:
            yield Fragment("added", f"{{+{shortened(''.join(added))}+}}")


Words = Sequence[str]


def _aligned_words(before: Words, after: Words) -> Iterator[tuple[Words, Words, Words]]:
    """Yield groups of words: words of both texts, then words of the first text only, then words of the second only."""
    position = 0
    for start, end, now, until in changed_ranges(before, after):
        yield before[position:start], before[start:end], after[now:until]
        position = end
    if position < len(before):
        yield before[position:], (), ()


def _words_near_changes(words: Words, *, first: bool, last: bool) -> str:
    """Return unchanged words as text. If there are many words, the text has only the words next to the changes."""
    if len(words) <= 2 * MAX_SHOWN_AROUND:
        return "".join(words)
    head = tail = ""
    if not first:
        head = "".join(words[:MAX_SHOWN_AROUND])
    if not last:
        tail = "".join(words[-MAX_SHOWN_AROUND:])
    return f"{head}…{tail}"


def shortened(text: str) -> str:
    """Return a text. If the text is long, leave out its middle."""
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    half = MAX_SHOWN_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


Equal = Callable[[Payload, Payload], bool]


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One change between two JSON values.

    A `path` is, for example, `messages[3].content`. The path of a removed element has the element's index in `before`.
    All other paths have indexes in `after`.
    """

    kind: Literal["removed", "added", "changed"]
    path: str
    before: Payload = None
    after: Payload = None

    def words(self) -> list[Fragment] | None:
        """Return the change word by word, or None if one of the values is not a text."""
        if self.kind == "changed" and isinstance(self.before, str) and isinstance(self.after, str):
            return word_changes(self.before, self.after)
        return None

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON.

        A value that was added has no `before`, and a value that was removed has no `after`. A changed text has `words`
        too.
        """
        members: dict[str, Payload] = {"kind": self.kind, "path": self.path}
        if self.kind != "added":
            members["before"] = self.before
        if self.kind != "removed":
            members["after"] = self.after
        words = self.words()
        if words is not None:
            members["words"] = [fragment.to_dict() for fragment in words]
        return members


def equal_json(first: Payload, second: Payload) -> bool:
    """Whether two values are the same JSON. Unlike in Python, 1, 1.0 and true are three values."""
    return first is second or _text(first) == _text(second)


def changes(before: Payload, after: Payload, path: str = "", equal: Equal = equal_json) -> Iterator[ValueChange]:
    """Yield the changes between two values, or nothing if they are equal."""
    if equal(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _member_changes(before, after, path, equal)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_changes(before, after, path, equal)
    else:
        yield ValueChange("changed", path, before, after)


def _member_changes(
    before: Mapping[str, Payload], after: Mapping[str, Payload], path: str, equal: Equal
) -> Iterator[ValueChange]:
    for name in dict.fromkeys([*before, *after]):
        inner = name
        if path:
            inner = f"{path}.{name}"
        if name not in after:
            yield ValueChange("removed", inner, before=before[name])
        elif name not in before:
            yield ValueChange("added", inner, after=after[name])
        else:
            yield from changes(before[name], after[name], inner, equal)


def _list_changes(
    before: Sequence[Payload], after: Sequence[Payload], path: str, equal: Equal
) -> Iterator[ValueChange]:
    for start, end, now, until in changed_ranges([*map(_text, before)], [*map(_text, after)]):
        paired = min(end - start, until - now)
        for offset in range(paired):
            inner = f"{path}[{now + offset}]"
            yield from changes(before[start + offset], after[now + offset], inner, equal)
        for place in range(start + paired, end):
            yield ValueChange("removed", f"{path}[{place}]", before=before[place])
        for place in range(now + paired, until):
            yield ValueChange("added", f"{path}[{place}]", after=after[place])


def _text(value: Payload) -> str:
    return json.dumps(value, sort_keys=True)
