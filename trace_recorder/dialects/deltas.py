"""Joins the deltas of streams, in all dialects: the one rule for members of which a dialect knows nothing.

A delta has what is new in an answer. `merge` adds a delta to the value so far, member by member:

- Strings are concatenated, because a text comes in pieces. A string is whole if the last word of its member's name
  says so: an id, a type, a role, a name, a status, a reason, a signature (`_WHOLE`). The last whole string is kept, but
  the first id.
- Lists grow, and objects are merged. A part of a list is merged into the part before it, if the part continues it
  (`_is_fragment`).
- Null and the empty string change nothing. For any other value, the last one is kept.

Members that are not deltas may repeat whole texts. For these members, `merge` takes `is_text_of_model`: only the
strings with the names of well-known texts are concatenated. Values are modified in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from trace_recorder.dialects.json_access import text_part
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.values.messages import Payload

_TEXTS_OF_MODELS = frozenset({"content", "reasoning_content", "reasoning", "refusal", "text", "thinking", "summary"})
_TEXTS_OF_MODELS |= {"arguments", "input", "data", "transcript"}
_WHOLE = lazy_pattern(
    r"(?:^|[_-]|(?<=[a-z])(?=[A-Z]))"
    r"(?i:id|uuid|type|kind|role|name|model|object|status|state|phase|reason|sequence|event|index|at|time|format|mime"
    r"|language|locale|url|uri|version|tier|severity|fingerprint|signature|hash|provider|p|obfuscation)$"
)
"""Matches the names of members whose strings are whole.

A name may be in snake_case or in camelCase. `p` and `obfuscation` have random text, which hides the lengths of tokens.
"""
_WHOLE_PARTS = frozenset({"data", "encrypted_content"})
"""Strings of an element of a list that do not continue the element before it."""
_DEPTH = 8
"""Deltas are merged down to this depth. No dialect's JSON is that deep, and the recursion limit is far away."""


class GrowingText:
    """A text whose pieces are still arriving. `finish_texts` joins the pieces once."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: str) -> None:
        self.pieces = [*pieces]

    def may_be_json(self) -> bool:
        """Whether the text ends like a JSON object. This is checked without joining the pieces."""
        return next((piece for piece in reversed(self.pieces) if piece.strip()), "").rstrip().endswith("}")

    def __str__(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def __bool__(self) -> bool:
        return any(self.pieces)


def append_text(seen: Payload, piece: str) -> Payload:
    """Append a piece to a text. If the earlier value is not a text, the piece replaces it."""
    if isinstance(seen, GrowingText):
        seen.pieces.append(piece)
        return seen
    if isinstance(seen, str) and seen:
        return GrowingText(seen, piece)
    return piece


def finish_texts(value: Payload) -> Payload:
    """Return a value with every `GrowingText` in it replaced by its text."""
    if isinstance(value, GrowingText):
        return str(value)
    if isinstance(value, dict):
        return {name: finish_texts(member) for name, member in value.items()}
    if isinstance(value, list):
        return [finish_texts(element) for element in value]
    return value


def is_text_of_model(name: str) -> bool:
    """Whether a member with this name has a text that all dialects stream in pieces."""
    return name in _TEXTS_OF_MODELS


@lru_cache(maxsize=256)
def comes_in_pieces(name: str) -> bool:
    """Whether the strings of a delta's member are pieces of a text: the name does not say that they are whole."""
    return name in _TEXTS_OF_MODELS or not _WHOLE.search(name)


def merge(
    into: dict[str, Payload],
    delta: dict[str, Payload],
    in_pieces: Callable[[str], bool] = comes_in_pieces,
    depth: int = _DEPTH,
) -> None:
    """Merge a delta into the value so far, in place.

    `in_pieces` tells by the name of a member whether its strings are pieces. Objects are merged down to `depth`.
    """
    for key, value in delta.items():
        seen = into.get(key)
        if value is None:
            into.setdefault(key)
        elif type(seen) is GrowingText and type(value) is str and in_pieces(key):
            seen.pieces.append(value)  # most deltas end here, without another function call
        elif value is not seen or type(value) is str:  # a repeated value, such as an index, changes nothing
            into[key] = _joined(key, seen, value, in_pieces, depth)


def _joined(key: str, seen: Payload, value: Payload, in_pieces: Callable[[str], bool], depth: int) -> Payload:
    if isinstance(value, str) and isinstance(seen, str | GrowingText) and in_pieces(key):
        return append_text(seen, value)
    if isinstance(value, list) or isinstance(seen, list):
        return _with_parts(_as_parts(seen), _as_parts(value), in_pieces, depth)
    if isinstance(value, dict) and isinstance(seen, dict) and depth:
        merge(seen, value, in_pieces, depth - 1)
        return seen
    if keeps_first(key, seen, value):
        return seen
    return value


def keeps_first(key: str, seen: Payload, value: Payload) -> bool:
    """Whether the earlier value is kept: if it is an id, or if the next value is null or an empty string."""
    return value is None or bool(seen and (value == "" or key == "id"))


def _as_parts(value: Payload) -> list[Payload]:
    """Return a member as a list. Mistral's content is a text at first, and becomes a list when thinking arrives."""
    if isinstance(value, str | GrowingText):
        return [text_part(str(value))] if value else []
    if isinstance(value, list):
        return value
    if value is None:
        return []
    return [value]


def _with_parts(
    parts: list[Payload], more: list[Payload], in_pieces: Callable[[str], bool], depth: int
) -> list[Payload]:
    """Append parts to a list. A part that continues the part before it is merged into that part."""
    for part in more:
        if parts and depth and _is_fragment(part, parts[-1]):
            merge(parts[-1], part, in_pieces, depth - 1)
        else:
            parts.append(part)
    return parts


def _is_fragment(part: Payload, before: Payload) -> bool:
    """Whether a part of a list continues the part before it.

    `reasoning_details` and Mistral's thinking come in such pieces. Both parts have the same type, and a text. If the
    text has no well-known name, both must have the same index too. A part with a signature, or with a different id, is
    not continued.
    """
    if not isinstance(part, dict) or not isinstance(before, dict):
        return False
    if not part.get("type") or part["type"] != before.get("type"):
        return False
    if _differ(part, before, "id") or _differ(part, before, "index"):
        return False
    texts = [name for name in ("text", "summary", "thinking") if name in part or name in before]
    if not texts and None not in (part.get("index"), before.get("index")):
        names = [name for name, value in part.items() if isinstance(value, str) and name not in _WHOLE_PARTS]
        texts = [*filter(comes_in_pieces, names)]
    return bool(texts) and not (before.get("signature") and any(part.get(name) for name in texts))


def _differ(part: dict[str, Payload], other: dict[str, Payload], name: str) -> bool:
    """Whether both parts have this member, with different values."""
    return None not in (part.get(name), other.get(name)) and part.get(name) != other.get(name)
