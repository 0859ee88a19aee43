"""The JSON texts of messages and tools that an agent passes by hand. They are kept: the next call repeats most of them.

An element is written again if anything in it has changed. It counts as unchanged only if it consists of dicts with
text as keys, lists, tuples, strings, numbers, booleans and None, and each of these is the same object as before. All
but dicts and lists are immutable, and the members of those are compared. Values are never compared by `==`, by which
1, 1.0 and True are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import is_

from trace_recorder.values.jsonable import MAX_NODES, element_to_json, objects_to_jsonable, to_json

MAX_ELEMENTS = 10_000
"""A list with more elements is written as a whole, which may cut it."""
MAX_PARTS = 256
"""An element that contains more dicts and lists is written each time."""
MAX_KNOWN_CHARS = 8 * 1024 * 1024
"""How many characters of texts are kept. Beyond that only those of the newest list are."""

_DEPTH = 2
"""An element of a request is in a list that is a member of the request."""
_IMMUTABLE = frozenset({str, int, float, bool, type(None)})

_Part = tuple[dict[str, object] | list[object] | tuple[object, ...], Sequence[str] | None, Sequence[object]]
"""A dict, a list or a tuple of an element, with the keys and the values that it had."""


@dataclass(frozen=True, slots=True)
class _Element:
    """An element as it was written: its parts, itself first, its text, and how many values it has."""

    parts: Sequence[_Part]
    text: str
    count: int


class RepeatedElements:
    """Writes lists as JSON, and remembers the texts of their elements.

    `known_chars` is how long the texts are. Several threads may use it at once: each entry is replaced as a whole.
    """

    def __init__(self, *, max_chars: int = MAX_KNOWN_CHARS) -> None:
        self._max_chars = max_chars
        self._known: dict[int, _Element] = {}
        self.known_chars = 0

    def to_json(self, value: object) -> str:
        """Write what `objects_to_jsonable` makes of a value as JSON text on one line."""
        if type(value) not in {list, tuple} or len(value) > MAX_ELEMENTS:  # type: ignore[arg-type]
            return to_json(objects_to_jsonable(value))
        elements: Sequence[object] = value[:]  # type: ignore[index]  # other threads may change it
        known = [self._of(element) for element in elements]
        if sum(one.count for one in known) >= MAX_NODES:
            return to_json(objects_to_jsonable(value))
        if self.known_chars > self._max_chars:
            self._keep(elements)
        return f"[{','.join([one.text for one in known])}]"

    def _of(self, element: object) -> _Element:
        known = self._known.get(id(element))
        if known is not None and known.parts[0][0] is element and _is_unchanged(known.parts):
            return known
        parts = _parts_of(element)
        known = _Element(parts, *element_to_json(element, _DEPTH))
        if parts and _is_unchanged(parts):  # no other thread has changed it meanwhile
            self._known[id(element)] = known
            self.known_chars += len(known.text)
        return known

    def _keep(self, elements: Iterable[object]) -> None:
        """Forget all other elements."""
        known = self._known
        self._known = {id(one): known[id(one)] for one in elements if id(one) in known}
        self.known_chars = sum(len(one.text) for one in self._known.values())
        if self.known_chars > self._max_chars:
            self._known, self.known_chars = {}, 0


def _parts_of(element: object) -> list[_Part]:
    """Return the dicts, lists and tuples of an element, itself first; none if other objects are among its parts."""
    waiting, parts = [element], list[_Part]()
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            keys, values = tuple(one), tuple(one.values())
            if not all(type(key) is str for key in keys):
                return []
            parts.append((one, keys, values))
        elif type(one) in {list, tuple}:
            values = tuple(one)  # type: ignore[arg-type]
            parts.append((one, None, values))  # type: ignore[arg-type]
        else:
            return []
        waiting += [value for value in values if type(value) not in _IMMUTABLE]
        if len(parts) > MAX_PARTS:
            return []
    return parts


def _is_unchanged(parts: Iterable[_Part]) -> bool:
    """Whether dicts, lists and tuples have the members that they had, as the same objects in the same order."""
    try:
        for one, keys, values in parts:
            if len(one) != len(values):
                return False
            if keys is None:
                if not all(map(is_, one, values)):
                    return False
            elif not (all(map(is_, one, keys)) and all(map(is_, one.values(), values))):  # type: ignore[union-attr]
                return False
    except RuntimeError:  # another thread changes it now
        return False
    return True
