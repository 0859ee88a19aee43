"""Edits texts that several strings spell together, a few letters in each: the events of a stream, and lists of tokens.

The first piece of a changed text gets the new text, and the rest is removed from the following pieces. A token of a
list, such as that of `logprobs`, has its text a second time: in `bytes`, as numbers, and among its alternatives. These
go with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate

from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.json_strings import decode_string
from trace_recorder.storage.text_edits import (
    Edit,
    JsonPath,
    Masker,
    TextPlace,
    json_tokens,
    spelled_edits,
)
from trace_recorder.values.structs import Struct

SPELLED_IN_LISTS = ("token", "stringValue")
"""The names of the members with which the elements of a list spell a text."""
_TOKEN, _BYTES = "token", "bytes"
_MOST_OBJECTS = 64
"""At most this many objects before a token are examined: a token has at most about twenty alternatives."""
_DECODER = json.JSONDecoder()


class TextPiece(Struct, frozen=True, gc=False):
    """A piece of a text. Its characters in JSON are from `start` to `end`, without the quotes."""

    start: int
    end: int
    text: str


def edits_of_pieces(text: str, pieces: Sequence[TextPiece], masker: Masker, place: TextPlace) -> Iterator[Edit]:
    """Yield the edits of a text that pieces spell. `text` is the text that has the pieces."""
    edits = masker.edits("".join([piece.text for piece in pieces]), place)
    starts = [0, *accumulate(len(piece.text) for piece in pieces)]
    number = 0
    for edit in edits:
        while number and starts[number] > edit.start:
            number -= 1
        while starts[number + 1] <= edit.start:
            number += 1
        new = edit.text
        while number < len(pieces) and starts[number] < edit.end:
            piece, begin = pieces[number], starts[number]
            within = Edit(max(0, edit.start - begin), min(len(piece.text), edit.end - begin), new)
            yield from spelled_edits(text[piece.start : piece.end], [within], piece.start)
            if place.path[-1] == _TOKEN:
                yield from _edits_beside(text, piece)
            new = ""
            number += 1


def has_lists(text: str) -> bool:
    """Return whether JSON text may have lists whose elements spell a text."""
    return any(f'"{name}"' in text for name in SPELLED_IN_LISTS)


def edits_in_lists(text: str, kind: str, masker: Masker) -> Iterator[Edit]:
    """Yield the edits of the texts that the elements of a list spell, in the JSON of a record."""
    if not has_lists(text):
        return
    pieces: dict[JsonPath, list[TextPiece]] = {}
    for token in json_tokens(text):
        path = token.path
        if not token.is_name and text[token.start] == '"' and path[-1:] and path[-1] in SPELLED_IN_LISTS:
            numbers = [at for at, key in enumerate(path) if isinstance(key, int)]
            if numbers:
                of_list = (*path[: numbers[-1]], *path[numbers[-1] + 1 :])
                value = decode_string(text, token.start, token.end)
                pieces.setdefault(of_list, []).append(TextPiece(token.start + 1, token.end - 1, value))
    for path, spelled in pieces.items():
        yield from edits_of_pieces(text, spelled, masker, TextPlace(kind, path))


def _edits_beside(text: str, piece: TextPiece) -> Iterator[Edit]:
    """Yield the edits that remove the bytes of a token, and its alternatives."""
    start, end = _object_around(text, piece)
    for token in json_tokens(text[start:end]):
        first = start + token.start
        if token.is_name or first + 1 == piece.start:
            continue
        if token.path[-1] == _TOKEN and text[first] == '"':
            yield Edit(first, start + token.end, '""')
        elif _BYTES in token.path and text[first].isdigit():
            yield Edit(first, start + token.end, "0")


def _object_around(text: str, piece: TextPiece) -> tuple[int, int]:
    """Return the span of the innermost object of JSON that has a piece, or of the piece if there is none."""
    start = text.rfind("{", 0, piece.start)
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        try:
            _, end = _DECODER.raw_decode(text, start)
        except ours(ValueError, RecursionError):
            end = start
        if end >= piece.end:
            return start, end
        start = text.rfind("{", 0, start)
    return piece.start, piece.start
