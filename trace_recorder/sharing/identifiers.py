"""The words that a run without texts still has: every string that is neither a digest nor a word of the formats.

They are read from the journal as `share` would write it, so nothing that is in the file can be missing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trace_recorder.dialects.json_access import json_value
from trace_recorder.storage.content_tiers.records import STREAM_MEMBERS
from trace_recorder.storage.content_tiers.textless_journal import TextlessRecord
from trace_recorder.storage.content_tiers.vocabulary import BODIES, PARTS, ROLES, TIME, kept_of
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.stream_chunks import unpacked
from trace_recorder.values.messages import Payload

ID = "id"
"""The member of each identifier of an object, whatever its own name is: nobody reads thousands of them."""
NAME = "name"
"""The member of the name of a tool, or of a reward."""
_DIGEST = re.compile(r"\[text:[0-9a-f]{16}\]")
_NO_IDENTIFIER = re.compile(rf"{_DIGEST.pattern}|\A(?:[^A-Za-z]*|{TIME.pattern})\Z")
"""Matches a text with a digest, a time, and a text without a letter."""
_ID = re.compile(r"(?:.*[_-]|.*[a-z](?=I))?[iI]ds?")
_EVENT = re.compile(r"[{\[]")
_OURS = frozenset({"schema", "recorder", "python", "platform", "base64", "parent", "replay_of", "framing", "content"})
"""Members of records that only this package writes. The rest of base64 is a digest."""


_TOOLS = frozenset({"tools", "functions"})


class Identifier(NamedTuple):
    """A string that stays in a run without texts, and the name of its member."""

    member: str
    text: str


def identifiers_of(records: Iterable[TextlessRecord]) -> Iterator[Identifier]:
    """Yield what the records of a journal without its texts have, as often as they have it."""
    words = format_words() | PARTS | ROLES
    for record in records:
        data = record.data
        for name, value in data.items():
            if name not in STREAM_MEMBERS and name not in _OURS:
                yield from _in(value, name, words)
        for event in unpacked(data["zlib"]).decode().splitlines() if "zlib" in data else ():
            begin = _EVENT.search(event)
            if begin is not None:
                yield from _in(json_value(event[begin.start() :]), "", words)


def _in(value: Payload, name: str, words: frozenset[str]) -> Iterator[Identifier]:
    if isinstance(value, dict):
        for member, inner in value.items():
            if name in _TOOLS and kept_of(member, BODIES) is None and not _DIGEST.fullmatch(member):
                yield Identifier(NAME, member)
            yield from _in(inner, member, words)
    elif isinstance(value, list):
        for element in value:
            yield from _in(element, name, words)
    elif isinstance(value, str) and value not in words and not _NO_IDENTIFIER.search(value):
        yield _identifier(name, value)


def _identifier(name: str, text: str) -> Identifier:
    if _ID.fullmatch(name):
        return Identifier(ID, text)
    if name in _TOOLS:
        return Identifier(NAME, text)
    if name == "url":  # the host is a provider that everybody knows, or a digest
        return Identifier(name, text.split("/", 3)[-1])
    return Identifier(name, text)
