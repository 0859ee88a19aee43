"""Finds the messages and tools that an agent records by hand again and again, so that each is copied only once.

Each element of a list is found by its content (`values/content_key.py`), not by its object. So an element that was
edited in place counts as a new element, and equal elements of two lists count as the same. If an element is on file,
only the number of its item goes into the record. Any other element is copied as JSON text, which becomes a new item
(`storage/items/encoder.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from trace_recorder.guard import ignore_failures
from trace_recorder.storage.items.item_lists import Element
from trace_recorder.values.content_key import content_key
from trace_recorder.values.jsonable import MAX_NODES, element_to_json, objects_to_jsonable, to_json

MAX_ELEMENTS = 100_000
"""A list with more elements than this is written as one value, not element by element.

Such a value is cut at `MAX_NODES` parts.
"""
MAX_KNOWN_CHARS = 8 * 1024 * 1024
"""If the younger generation has more characters than this, it becomes the older one when the next list is read."""

_DEPTH = 2
"""The depth of an element in a request: the element is in a list, which is a member of the request."""
_ENTRY_CHARS = 300
"""The memory that a known element takes in addition to its text, as a number of characters."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_DESCRIPTION = '{"__type__":'


class RepeatedElements:
    """Finds by content which elements of a list are already on file.

    The known elements are in two generations, each of which is a dict. An element that is found in the older generation
    moves to the younger one. When the younger generation is full, it becomes the older one, and the elements of the
    former older generation are forgotten. Several threads may use the generations at once, because each operation of a
    dict is atomic. An element that was forgotten is written again.
    """

    def __init__(self, *, max_chars: int = MAX_KNOWN_CHARS) -> None:
        self._max_chars = max_chars
        self._young: dict[Hashable, Element] = {}
        self._old: dict[Hashable, Element] = {}
        self._young_chars = 0

    def elements_of(self, value: object) -> str | list[Element]:
        """Return the elements of a list, or the JSON text of a value that is not a list of messages or tools."""
        elements = None
        with ignore_failures:
            elements = self._find_all(value)
        if elements is None:
            return to_json(objects_to_jsonable(value))
        return elements

    def _find_all(self, value: object) -> list[Element] | None:
        """Return the elements, or None if the value must be written as a whole.

        Raises the exceptions of the elements' own code.
        """
        if type(value) not in {list, tuple} or len(value) > MAX_ELEMENTS:  # type: ignore[arg-type]
            return None
        elements: Sequence[object] = value[:]  # type: ignore[index]  # other threads may change it
        if _SCALARS.issuperset(map(type, elements)):
            return None
        if self._young_chars > self._max_chars:
            self._old, self._young, self._young_chars = self._young, {}, 0
        find, key_of = self._young.get, content_key
        entries = [find(key_of(element)) or self._find_old_or_copy(element) for element in elements]
        if sum([entry.parts for entry in entries]) >= MAX_NODES:
            return None
        return entries

    def _find_old_or_copy(self, element: object) -> Element:
        key = content_key(element)
        if key is not None and (known := self._old.get(key)) is not None:
            self._add(key, known)
            return known
        text, parts = element_to_json(element, _DEPTH)
        if text.startswith(_DESCRIPTION) or (key is not None and content_key(element) != key):
            key = None  # in the second case, another thread has changed the element meanwhile
        return Element(text, parts, key)

    def remember(self, lists: Iterable[str | Sequence[Element]]) -> None:
        """Remember the elements of lists that are on file now."""
        for element in chain.from_iterable(elements for elements in lists if not isinstance(elements, str)):
            if element.text and element.key is not None:
                element.chars, element.text = len(element.text) + _ENTRY_CHARS, ""
                self._add(element.key, element)

    def _add(self, key: Hashable, element: Element) -> None:
        self._young[key] = element
        self._young_chars += element.chars
