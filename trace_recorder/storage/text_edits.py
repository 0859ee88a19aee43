"""Changes of texts in JSON: a `Masker` says what replaces parts of a decoded text, and this file writes the change.

A string of JSON is decoded for the masker, and its edits are then written into the JSON text as it is. So nothing but
the edited characters changes: no digit of a number, no escape, no white space.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.storage.redaction.json_strings import decode_string, encode_string
from trace_recorder.storage.redaction.spellings import of_json
from trace_recorder.values.json_text import COLON
from trace_recorder.values.structs import Struct

JsonPath = tuple[str | int, ...]
"""The path of a value in JSON: the names of members, and positions in lists."""


class Edit(Struct, frozen=True, gc=False):
    """A replacement of a part of a text: the characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


class TextPlace(NamedTuple):
    """The place of a text: the kind of its record, and its path in the record's data.

    `kind` is "" in a document, and "damaged" for bytes that are not a record. If `is_name` is True, the text is the
    name of a member, which is the last element of `path`. The path of a text that a stream spells over several events
    is "zlib" and the name of the member that has its pieces.
    """

    kind: str
    path: JsonPath
    is_name: bool = False


class Masker(Protocol):
    """Decides what replaces the texts of a run."""

    @property
    def numbers(self) -> Mapping[str, str]:
        """The numbers that are replaced, as they are written in JSON, with the text that replaces each."""

    def may_change(self, json_text: str) -> bool:
        """Return False if no text in this JSON changes. It is quicker than `edits`, and may return True in doubt."""

    def edits(self, text: str, place: TextPlace) -> Sequence[Edit]:
        """Return what replaces parts of a decoded text: in order, and without overlaps."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with its edits made."""
    parts: list[str] = []
    done = 0
    for edit in edits:
        parts += (text[done : edit.start], edit.text)
        done = edit.end
    return "".join([*parts, text[done:]])


def spelled_edits(spelled: str, edits: Iterable[Edit], offset: int = 0) -> Iterator[Edit]:
    """Yield edits of a decoded JSON string as edits of the characters between its quotes.

    `offset` is the position of these characters in a longer text.
    """
    spelling = of_json(spelled)
    for edit in edits:
        start, end = spelling.span(edit.start, edit.end)
        yield Edit(start + offset, end + offset, encode_string(edit.text)[1:-1])


def joined_edits(edits: Iterable[Edit]) -> list[Edit]:
    """Return edits in order, without overlaps: of two that overlap, the first gets the span of both."""
    joined: list[Edit] = []
    for edit in sorted(edits, key=lambda each: (each.start, -each.end)):
        if not joined or edit.start >= joined[-1].end:
            joined.append(edit)
        elif edit.end > joined[-1].end:
            joined[-1] = Edit(joined[-1].start, edit.end, joined[-1].text)
    return joined


# ── the tokens of JSON ───────────────────────────────────────────────────────────────────────────────────────────────

_TOKEN = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],]|[^\s{}\[\],:"]+', re.DOTALL)


class JsonToken(NamedTuple):
    """A string, a number or another literal of JSON: its span, its path, and whether it is the name of a member."""

    start: int
    end: int
    path: JsonPath
    is_name: bool


def json_tokens(text: str) -> Iterator[JsonToken]:
    """Yield the strings, numbers and other literals of JSON text, with their paths. A part of JSON is read as it is."""
    keys: list[str | int] = []  # where we are in each open object and list
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        sign = text[start]
        if sign in "{[":
            keys.append("" if sign == "{" else 0)
        elif sign in "}]":
            if keys:
                keys.pop()
        elif sign == ",":
            if keys and isinstance(keys[-1], int):
                keys[-1] += 1
        elif sign == '"' and keys and isinstance(keys[-1], str) and COLON.match(text, end):
            keys[-1] = decode_string(text, start, end)
            yield JsonToken(start, end, (*keys,), is_name=True)
        else:
            yield JsonToken(start, end, (*keys,), is_name=False)


class JsonEdits(NamedTuple):
    """The edits of JSON text, and how many places of its texts they change."""

    edits: list[Edit]
    places: int


IsStructure = Callable[[JsonToken, str], bool]
"""A function that returns whether a token belongs to the format of the file, and is not a text.

It gets the token, and its characters in the JSON.
"""


Rename = Callable[[JsonPath, str, str], str]
"""A function that gets the path of a changed string, and the string before and after, and returns what is written."""
_NOT_REPLACED: Mapping[JsonPath, str] = {}


def edit_json(  # noqa: PLR0913 - the last two are for records only
    text: str,
    kind: str,
    masker: Masker,
    is_structure: IsStructure,
    *,
    replaced: Mapping[JsonPath, str] = _NOT_REPLACED,
    rename: Rename = lambda _, __, changed: changed,
) -> JsonEdits:
    """Return the edits of the strings and numbers of JSON text, but not of its structure.

    `replaced` has new texts for strings at these paths, which the masker does not see. Two names of one object stay
    different: the second gets a number.
    """
    edits: list[Edit] = []
    places = 0
    names: dict[JsonPath, set[str]] = {}
    for token in json_tokens(text):
        spelled = text[token.start : token.end]
        if not token.is_name and token.path in replaced:
            edits.append(Edit(token.start, token.end, encode_string(replaced[token.path])))
        elif is_structure(token, spelled):
            continue
        elif spelled[0] != '"':
            number = masker.numbers.get(spelled)
            if number is not None:
                edits.append(Edit(token.start, token.end, encode_string(number)))
                places += 1
        else:
            value = decode_string(spelled, 0, len(spelled))
            changes = masker.edits(value, TextPlace(kind, token.path, token.is_name))
            if changes:
                places += len(changes)
                edits += _string_edits(token, spelled, value, changes, names, rename)
    return JsonEdits(edits, places)


def _string_edits(  # noqa: PLR0913, PLR0917 - a step of `edit_json`
    token: JsonToken,
    spelled: str,
    value: str,
    changes: Sequence[Edit],
    names: dict[JsonPath, set[str]],
    rename: Rename,
) -> Iterator[Edit]:
    """Yield the edits of a string. `names` has the changed names so far, by the path of their object."""
    changed = apply_edits(value, changes)
    if token.is_name:
        taken = names.setdefault(token.path[:-1], set())
        new = changed
        if changed in taken:
            new = f"{changed}[REDACTED:name-{len(taken) + 1}]"
        taken.add(new)
    else:
        new = rename(token.path, value, changed)
    if new != changed:
        yield Edit(token.start, token.end, encode_string(new))
    else:
        yield from spelled_edits(spelled[1:-1], changes, token.start + 1)
