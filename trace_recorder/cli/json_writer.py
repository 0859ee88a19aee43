"""Indented JSON as text in parts, so that a document is never in memory as a whole.

The text equals `json.dumps(value, indent=2)`. A message that is the same object in several lists of messages is encoded
once. A lazy sequence is read element by element.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from trace_recorder.values.messages import Payload

PART_CHARACTERS = 256 * 1024
"""About how many characters are yielded at once."""
_INDENT = "  "
_MAX_LEVEL = 3
"""Lists at this depth hold messages, which may be shared objects. Other values at this depth are encoded at once."""


def json_parts(value: Payload, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield the text of a value."""
    waiting: list[str] = []
    size = 0
    for piece in _JsonWriter(ascii_only=ascii_only).pieces(value, 0):
        waiting.append(piece)
        size += len(piece)
        if size >= PART_CHARACTERS:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)


class _JsonWriter:
    def __init__(self, *, ascii_only: bool) -> None:
        self._ascii_only = ascii_only
        self._texts: dict[tuple[int, int], tuple[Payload, str]] = {}

    def pieces(self, value: Payload, level: int) -> Iterator[str]:
        """Yield the text of a value at this depth."""
        if isinstance(value, Mapping) and value and level < _MAX_LEVEL:
            yield from self._object(value, level)
        elif isinstance(value, Sequence) and not isinstance(value, str) and level <= _MAX_LEVEL:
            yield from self._array(value, level)
        else:
            yield self._whole(value, level)

    def _object(self, value: Mapping[str, Payload], level: int) -> Iterator[str]:
        before, between = "{\n" + _INDENT * (level + 1), ",\n" + _INDENT * (level + 1)
        for name, member in value.items():
            yield f"{before}{self._name(name)}: "
            yield from self.pieces(member, level + 1)
            before = between
        yield "\n" + _INDENT * level + "}"

    def _array(self, value: Sequence[Payload], level: int) -> Iterator[str]:
        before, between = "[\n" + _INDENT * (level + 1), ",\n" + _INDENT * (level + 1)
        is_empty, is_shared = True, level == _MAX_LEVEL
        for element in value:
            yield before
            if is_shared:
                yield self._shared(element, level + 1)
            else:
                yield from self.pieces(element, level + 1)
            before, is_empty = between, False
        yield "[]" if is_empty else "\n" + _INDENT * level + "]"

    def _shared(self, element: Payload, level: int) -> str:
        key = id(element), level
        if key not in self._texts:
            self._texts[key] = element, self._whole(element, level)
        return self._texts[key][1]

    def _name(self, name: Payload) -> str:
        """Return the name of a member as JSON text."""
        if isinstance(name, str):
            return json.dumps(name, ensure_ascii=self._ascii_only)
        return json.dumps({name: 0}, ensure_ascii=self._ascii_only)[1:-4]

    def _whole(self, value: Payload, level: int) -> str:
        text = json.dumps(value, ensure_ascii=self._ascii_only, indent=2)
        return text.replace("\n", "\n" + _INDENT * level)
