"""Takes the texts out of JSON, and keeps its structure: see `vocabulary.py` for what is kept.

`without_texts` replaces each text by its digest. `without_pieces` leaves each text out: events of a stream have pieces
of a text, and digests of pieces of a few letters would be a cipher that can be broken by counting.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping

from trace_recorder.dialects.json_access import json_value
from trace_recorder.storage.content_tiers.text_digests import TextDigests
from trace_recorder.storage.content_tiers.vocabulary import (
    BODIES,
    IDENTIFIER,
    MEDIA,
    MODEL,
    NAMES_IN_COUNTS,
    PART,
    PARTS,
    ROLES,
    RUN_ID,
    TIME,
    Kept,
    Vocabulary,
    is_count,
    kept_of,
)
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload

_ROLES_OF_TOOLS = frozenset({"tool", "function"})
"""The name in a message with such a role is the name of a tool. With any other role, it is the name of a person."""
_COUNTERS = frozenset({"sequence_number", "created_at", "event_id", "obfuscation"})
"""The members in which events of one form differ. They are left out of a stream."""
_dump = make_json_writer(",", ":")
Strings = dict[str, int]
"""The numbers of large strings by their placeholders in a value."""


class Structure:
    """Takes the texts out of JSON. `leaves_out` says whether a text becomes "" and not its digest."""

    def __init__(self, digests: TextDigests, *, leaves_out: bool = False) -> None:
        self._digests = digests
        self._leaves_out = leaves_out

    def body(self, value: Payload, strings: Strings | None = None) -> Payload:
        """Return a body, or an event, without its texts."""
        return self._node(value, BODIES, strings or {})

    def of(self, kept: Kept | Vocabulary, value: Payload, strings: Strings | None = None) -> Payload:
        """Return what is kept of a member's value."""
        return self._member(kept, value, strings or {})

    def _node(self, value: Payload, vocabulary: Vocabulary, strings: Strings) -> Payload:
        if isinstance(value, dict):
            return self._object(value, vocabulary, strings)
        if isinstance(value, list):
            if any(isinstance(element, int | float) for element in value):  # such as the ids of tokens
                return [self._digest(value, strings)]
            return [self._node(element, vocabulary, strings) for element in value]
        if value is None or isinstance(value, bool):
            return value
        return self._digest(value, strings)

    def _object(self, value: dict[str, Payload], vocabulary: Vocabulary, strings: Strings) -> dict[str, Payload]:
        structure: dict[str, Payload] = {}
        for name, member in value.items():
            if self._leaves_out and name in _COUNTERS:
                continue
            kept = kept_of(name, vocabulary)
            if kept is None:
                self._add_unknown(structure, name, member, strings)
                continue
            if name in _DEPENDENT and vocabulary is BODIES:
                kept = _kept_here(name, member, value)
            structure[name] = self._member(kept, member, strings)
        return structure

    def _add_unknown(self, structure: dict[str, Payload], name: str, value: Payload, strings: Strings) -> None:
        structure[self._digests.of_text(name)] = self._digest(value, strings)

    def _digest(self, value: Payload, strings: Strings) -> Payload:
        if not self._leaves_out or value is None:
            return self._digests.of_value(value, strings)
        return ""

    def _member(self, kept: Kept | Vocabulary, value: Payload, strings: Strings) -> Payload:
        if not isinstance(kept, Kept):
            structure = self
            if self._leaves_out and "message" in kept:  # the message of an error is a whole text
                structure = Structure(self._digests)
            return structure._node(value, kept, strings)
        if value is None:
            return None
        if kept is Kept.NODE:
            return self._node(value, BODIES, strings)
        if isinstance(value, str | int | float) and _is_kept(kept, value):
            if isinstance(value, float) and not math.isfinite(value):
                return None
            if isinstance(value, str) and kept is not Kept.ROLE:
                return self._digests.of_identifier(value)
            return value
        read = _READ.get(kept, Structure._arguments)
        return read(self, value, strings)

    def _bytes(self, value: Payload, strings: Strings) -> Payload:
        if not value:
            return value
        return base64.b64encode(str(self._digest(value, strings)).encode()).decode()

    def _arguments(self, value: Payload, strings: Strings) -> Payload:
        """Return a digest that has the type of JSON that the value has."""
        if not self._leaves_out:
            return self._digests.of_arguments(value, strings)
        if isinstance(value, dict):
            return {}
        return [] if isinstance(value, list) else ""

    def _tools(self, value: Payload, strings: Strings) -> Payload:
        if isinstance(value, list):
            return [self._tools(element, strings) for element in value]
        if isinstance(value, str):
            return self._member(Kept.IDENTIFIER, value, strings)
        if isinstance(value, dict) and not any(kept_of(name, BODIES) for name in value):  # a tool of the provider
            return {
                self._member(Kept.IDENTIFIER, name, strings): self._arguments(value[name], strings) for name in value
            }
        return self._node(value, BODIES, strings)

    def _result(self, value: Payload, strings: Strings) -> Payload:
        if isinstance(value, list) and value and all(map(_is_part, value)):
            return [self._node(part, PART, strings) for part in value]
        return self._digest(value, strings)

    def _counts(self, value: Payload, strings: Strings) -> Payload:
        if isinstance(value, dict):
            counts: dict[str, Payload] = {}
            for name, member in value.items():
                if isinstance(member, str) and name in NAMES_IN_COUNTS and IDENTIFIER.fullmatch(member):
                    counts[name] = self._digests.of_identifier(member)
                elif is_count(name):
                    counts[name] = self._counts(member, strings)
                else:
                    self._add_unknown(counts, name, member, strings)
            return counts
        if isinstance(value, list):
            return [self._counts(element, strings) for element in value]
        if isinstance(value, str):
            return self._digest(value, strings)
        return value

    def _body_text(self, value: Payload, strings: Strings) -> Payload:
        """Return a body that is a text. JSON that strict readers refuse is such a text."""
        if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
            parsed = json_value(value)
            if isinstance(parsed, dict | list):
                return _dump(self.body(parsed, strings))
        return self._digest(value, strings)


def _is_kept(kept: Kept, value: str | float) -> bool:
    """Return whether a string, a number or a bool is kept as it is."""
    if kept is Kept.IDENTIFIER:
        return (
            not isinstance(value, str) or IDENTIFIER.fullmatch(value) is not None or MEDIA.fullmatch(value) is not None
        )
    if kept is Kept.NUMBER:
        return not isinstance(value, str) or TIME.fullmatch(value) is not None
    if kept is Kept.RUN_ID:
        return isinstance(value, str) and RUN_ID.fullmatch(value) is not None
    if kept is Kept.MODEL:
        return not isinstance(value, str) or MODEL.fullmatch(value) is not None
    return kept is Kept.ROLE and isinstance(value, str) and value.lower() in ROLES


_READ: Mapping[Kept, Callable[[Structure, Payload, Strings], Payload]] = {
    Kept.TOOLS: Structure._tools,
    Kept.COUNTS: Structure._counts,
    Kept.RESULT: Structure._result,
    Kept.BYTES: Structure._bytes,
    Kept.BODY: Structure._body_text,
    Kept.RUN_ID: Structure._digest,
    Kept.VALUE: Structure._digest,
}
"""How a value is read if it is not kept as it is. Anything else becomes a digest that has the value's type of JSON."""
_DEPENDENT = frozenset({"name", "input", "output", "content", "tool_choice"})
"""Members whose meaning depends on the object around them."""


def _kept_here(name: str, member: Payload, around: dict[str, Payload]) -> Kept:
    """Return what is kept of a member in `_DEPENDENT`."""
    if name == "name":
        role = around.get("role")
        is_of_person = role is not None and str(role).lower() not in _ROLES_OF_TOOLS
        return Kept.VALUE if is_of_person else Kept.IDENTIFIER
    if name == "tool_choice" and isinstance(member, str):
        return Kept.IDENTIFIER
    if name == "input" and (isinstance(member, dict) or "name" in around):
        return Kept.ARGUMENTS
    is_of_tool = "call_id" in around or "tool_use_id" in around or around.get("role") in _ROLES_OF_TOOLS
    if name in {"output", "content"} and is_of_tool:
        return Kept.RESULT
    return Kept.NODE


def _is_part(value: Payload) -> bool:
    return isinstance(value, dict) and (value.get("type") in PARTS or value.keys() == {"text"})
