"""Merges the deltas of an OpenAI chat stream by one rule, including unknown members.

Strings are concatenated if the dialect streams them in pieces. Lists grow, objects are merged, the first id is kept,
and null and the empty string change nothing. For any other member, the last value is kept. A part of a list is merged
into the part before it if both have the same type: `reasoning_details` and Mistral's thinking come in pieces, under one
index or under none.

When a call is complete, and which call a delta belongs to, is decided in `chat_chunks.py`.
"""

from __future__ import annotations

from trace_recorder.dialects.json_access import text_part
from trace_recorder.values.messages import Payload

# Strings that come in pieces. Every other string is sent whole.
_PIECEWISE = frozenset({"content", "reasoning_content", "reasoning", "refusal", "text", "thinking", "summary"})
_PIECEWISE |= {"arguments", "input", "data", "transcript"}
# Deeper than the JSON of any dialect, and far from the interpreter's limit.
_DEPTH = 8


class GrowingText:
    """A text whose pieces are still arriving. `finish_texts` joins them once."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: str) -> None:
        self.pieces = [*pieces]

    def may_be_json(self) -> bool:
        """Whether it ends like a JSON object. This is checked without joining the pieces."""
        return next((piece for piece in reversed(self.pieces) if piece.strip()), "").rstrip().endswith("}")

    def __str__(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]

    def __bool__(self) -> bool:
        return any(self.pieces)


def append_text(seen: Payload, piece: str) -> Payload:
    """Append a piece to a text. The earlier value may not be a text."""
    if isinstance(seen, GrowingText):
        seen.pieces.append(piece)
        return seen
    return GrowingText(seen, piece) if isinstance(seen, str) and seen else piece


def finish_texts(value: Payload) -> Payload:
    """Return a value with every `GrowingText` in it replaced by its text."""
    if isinstance(value, GrowingText):
        return str(value)
    if isinstance(value, dict):
        return {name: finish_texts(one) for name, one in value.items()}
    return [finish_texts(one) for one in value] if isinstance(value, list) else value


def merge(into: dict[str, Payload], delta: dict[str, Payload], depth: int = _DEPTH) -> None:
    """Merge a delta into the value so far, in place. Objects are merged down to `depth`."""
    for key, value in delta.items():
        seen = into.get(key)
        if value is None:
            into.setdefault(key)
        elif type(seen) is GrowingText and type(value) is str and key in _PIECEWISE:
            seen.pieces.append(value)  # nearly every delta: without another call
        elif value is not seen or type(value) is str:  # the index, for example, stays the same
            into[key] = _joined(key, seen, value, depth)


def _joined(key: str, seen: Payload, value: Payload, depth: int) -> Payload:
    if isinstance(value, str) and isinstance(seen, str | GrowingText) and key in _PIECEWISE:
        return append_text(seen, value)
    if isinstance(value, list) or isinstance(seen, list):
        return _with_parts(_as_parts(seen), _as_parts(value), depth)
    if isinstance(value, dict) and isinstance(seen, dict) and depth:
        merge(seen, value, depth - 1)
        return seen
    return seen if keeps_first(key, seen, value) else value


def keeps_first(key: str, seen: Payload, value: Payload) -> bool:
    """Whether the first value is kept: an id, or any value if the next value is null or an empty string."""
    return value is None or bool(seen and (value == "" or key == "id"))


def _as_parts(value: Payload) -> list[Payload]:
    """Return a member as a list. Mistral's content is a text first and a list once it has thinking."""
    if isinstance(value, str | GrowingText):
        return [text_part(str(value))] if value else []
    return value if isinstance(value, list) else [] if value is None else [value]


def _with_parts(parts: list[Payload], more: list[Payload], depth: int) -> list[Payload]:
    """Append parts to a list. A fragment is merged into the part before it, if that has its type and is still open."""
    for part in more:
        if parts and depth and _is_fragment(part, parts[-1]):
            merge(parts[-1], part, depth - 1)
        else:
            parts.append(part)
    return parts


def _is_fragment(part: Payload, before: Payload) -> bool:
    """Whether a part continues the one before it. A signed part is closed, and another id means another part."""
    if not isinstance(part, dict) or not isinstance(before, dict):
        return False
    if not part.get("type") or part["type"] != before.get("type"):
        return False
    if _differ(part, before, "id") or _differ(part, before, "index"):
        return False
    texts = [name for name in ("text", "summary", "thinking") if name in part or name in before]
    return bool(texts) and not (before.get("signature") and any(part.get(name) for name in texts))


def _differ(one: dict[str, Payload], other: dict[str, Payload], name: str) -> bool:
    """Whether both parts have this member, with different values."""
    return None not in (one.get(name), other.get(name)) and one.get(name) != other.get(name)
