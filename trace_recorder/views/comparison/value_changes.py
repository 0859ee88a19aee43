"""Two JSON values compared: the members and elements that were removed, added or changed, each with its path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trace_recorder.values.messages import Payload
from trace_recorder.views.comparison.changed_ranges import changed_ranges
from trace_recorder.views.comparison.word_changes import Fragment, word_changes

Equal = Callable[[Payload, Payload], bool]


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One change.

    A `path` is, for example, `messages[3].content`. The position of a removed element is that in `before`.
    """

    kind: Literal["removed", "added", "changed"]
    path: str
    before: Payload = None
    after: Payload = None

    def words(self) -> list[Fragment] | None:
        """Return the change word by word, if both values are texts."""
        both = isinstance(self.before, str) and isinstance(self.after, str) and self.kind == "changed"
        return word_changes(self.before, self.after) if both else None

    def to_dict(self) -> dict[str, Payload]:
        """Render as JSON: `before` unless it was added, `after` unless it was removed, `words` of two texts."""
        sides = {"before": self.before} if self.kind != "added" else {}
        if self.kind != "removed":
            sides["after"] = self.after
        words = self.words()
        shown = {} if words is None else {"words": [one.to_dict() for one in words]}
        return {"kind": self.kind, "path": self.path, **sides, **shown}


def equal_json(one: Payload, other: Payload) -> bool:
    """Whether two values are the same JSON. Unlike in Python, 1, 1.0 and true are three values."""
    return one is other or _text(one) == _text(other)


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
        inner = f"{path}.{name}" if path else name
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
        for at in range(paired):
            yield from changes(before[start + at], after[now + at], f"{path}[{now + at}]", equal)
        yield from (ValueChange("removed", f"{path}[{at}]", before=before[at]) for at in range(start + paired, end))
        yield from (ValueChange("added", f"{path}[{at}]", after=after[at]) for at in range(now + paired, until))


def _text(value: Payload) -> str:
    return json.dumps(value, sort_keys=True)
