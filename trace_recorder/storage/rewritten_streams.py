"""Edits the streams of a journal: a text may be spelled over many events, and over the border of two parts.

A first pass over the journal notes where the parts of each stream are (`StreamScan`). At the end of a stream, its parts
are read again and joined. Each string of its events is edited, and each text that its events spell: the strings at one
path of members, joined. The edits are positions in the bytes of the stream, so a part is then changed without looking
at any other part (`StreamEdits`). The first event of a changed text gets the new text, and the rest is removed from the
following events. Memory: the text of one stream at a time, and the positions of the parts of open streams.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import BinaryIO, NamedTuple

from trace_recorder.dialects.event_forms import PIECES
from trace_recorder.facts import (
    Fact,
    LLMErrorFact,
    LLMResponseFact,
    LLMStreamFact,
    StreamPart,
    WebsocketEndFact,
    WebsocketFramesFact,
)
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.storage.redaction.json_strings import decode_string
from trace_recorder.storage.redaction.split_secrets import Part, StringPath, strings_of_event
from trace_recorder.storage.spelled_pieces import SPELLED_IN_LISTS, TextPiece, edits_of_pieces
from trace_recorder.storage.stream_chunks import unpacked
from trace_recorder.storage.text_edits import Edit, Masker, TextPlace, edit_json, joined_edits
from trace_recorder.values.json_text import STRING
from trace_recorder.values.messages import Payload

SPELLED = frozenset({*PIECES, *SPELLED_IN_LISTS})
"""The names of the members in which the events of a stream spell a text, a few letters in each."""
TEXT_OF_STREAM = ("zlib",)
"""The beginning of the path of each text of a stream."""
_DECODER = json.JSONDecoder()
_FRAMING = lazy_pattern(r"(?:data:|[<>] )?[\s,\[\]]*(?:\[DONE\]\s*)?|event: ?[\w.]+\s*")
"""Matches what is between the events of a stream and is no text: the names of fields and of events, and blanks."""

StreamKey = tuple[str, int]
"""The id of an interaction, and the number of its attempt. Or the id of a websocket, and -1."""


class RecordSpan(NamedTuple):
    """The place of a record in the journal's file, in bytes."""

    offset: int
    length: int


class BytesEdit(NamedTuple):
    """A replacement of bytes of a stream, which are counted from the beginning of the stream."""

    start: int
    end: int
    data: bytes


class EditedStream(NamedTuple):
    """The edits of a stream, and how many places they change. `starts` has where each of its parts begins."""

    edits: list[BytesEdit]
    starts: list[int]
    places: int


def stream_key(fact: Fact) -> StreamKey | None:
    """Return which stream a fact belongs to, or None."""
    if isinstance(fact, LLMStreamFact | LLMResponseFact | LLMErrorFact):
        return fact.interaction_id, fact.attempt
    if isinstance(fact, WebsocketFramesFact | WebsocketEndFact):
        return fact.connection_id, -1
    return None


def part_text(fact: StreamPart) -> bytes | None:
    """Return the text of a part, or None if it is damaged."""
    try:
        return unpacked(fact.zlib)
    except ours(ValueError, TypeError, zlib.error):
        return None


class StreamScan:
    """Collects the parts of the streams of a journal, and edits each stream when it has ended.

    `edited` has the streams with an edit, by the offset of their first part.
    """

    def __init__(self, file: BinaryIO, masker: Masker) -> None:
        self._file = file
        self._masker = masker
        self._open: dict[StreamKey, list[RecordSpan]] = {}
        self.edited: dict[int, EditedStream] = {}

    def add(self, record: Record) -> None:
        """Add the next record of the journal that belongs to a stream, or ends one."""
        key = stream_key(record.fact)
        if key is None:
            return
        if isinstance(record.fact, StreamPart):
            self._open.setdefault(key, []).append(RecordSpan(record.offset, record.length))
        else:
            self._end(self._open.pop(key, []))

    def end(self) -> None:
        """End the streams without a last record."""
        for parts in self._open.values():
            self._end(parts)
        self._open.clear()

    def _end(self, parts: Sequence[RecordSpan]) -> None:
        if not parts:
            return
        texts = [self._text_at(part) for part in parts]
        text = b"".join(texts).decode("utf-8", "surrogateescape")
        edits = joined_edits([*edits_of_stream(text, self._masker)])
        if edits:
            starts = [0, *accumulate(map(len, texts))]
            places = sum(bool(edit.text) for edit in edits) or 1  # the rest of a spelled text has no new text
            self.edited[parts[0].offset] = EditedStream([*_in_bytes(text, edits)], starts, places)

    def _text_at(self, part: RecordSpan) -> bytes:
        position = self._file.tell()
        self._file.seek(part.offset)
        data = self._file.read(part.length)
        self._file.seek(position)
        [record] = read_records(data)
        if isinstance(record, Record) and isinstance(record.fact, StreamPart):
            return part_text(record.fact) or b""
        raise AssertionError("unreachable: the record was read before")


class StreamEdits:
    """Changes the parts of streams in the order of the journal. `edited` comes from a `StreamScan` of that journal."""

    def __init__(self, edited: dict[int, EditedStream]) -> None:
        self._edited = edited
        self._open: dict[StreamKey, tuple[EditedStream | None, int]] = {}
        """The stream of each key, and the number of its next part."""

    def changed_part(self, record: Record) -> bytes | None:
        """Return the new text of a part, or None if it does not change. Any other record may end its stream."""
        key = stream_key(record.fact)
        if key is None:
            return None
        if not isinstance(record.fact, StreamPart):
            self._open.pop(key, None)
            return None
        stream, number = self._open.get(key, (self._edited.get(record.offset), 0))
        self._open[key] = stream, number + 1
        if stream is None:
            return None
        return _part_with_edits(part_text(record.fact), stream, number)

    def places(self, offset: int) -> int:
        """Return how many places change in the stream whose first part is at this offset of the file."""
        stream = self._edited.get(offset)
        if stream is None:
            return 0
        return stream.places


def _part_with_edits(text: bytes | None, stream: EditedStream, number: int) -> bytes | None:
    if text is None:
        return None
    first, last = stream.starts[number], stream.starts[number + 1]
    parts: list[bytes] = []
    done = first
    for edit in stream.edits:
        if edit.end <= first or edit.start >= last:
            continue
        start, end = max(edit.start, first), min(edit.end, last)
        parts.append(text[done - first : start - first])
        if edit.start >= first:
            parts.append(edit.data)
        done = end
    if done == first and not parts:
        return None
    return b"".join([*parts, text[done - first :]])


def _in_bytes(text: str, edits: Sequence[Edit]) -> Iterator[BytesEdit]:
    """Yield edits of a decoded stream as edits of its bytes."""
    done = position = 0
    for edit in edits:
        start = position + len(text[done : edit.start].encode("utf-8", "surrogateescape"))
        end = start + len(text[edit.start : edit.end].encode("utf-8", "surrogateescape"))
        yield BytesEdit(start, end, edit.text.encode("utf-8", "surrogateescape"))
        done, position = edit.end, end


# ── the events of a stream ───────────────────────────────────────────────────────────────────────────────────────────


def edits_of_stream(text: str, masker: Masker) -> Iterator[Edit]:
    """Yield the edits of a decoded stream, in no order. Two of them may overlap."""
    pieces = _pieces_in_lines(text, masker)
    if pieces is None:
        pieces = {}
        yield from _edits_of_events(text, masker, pieces)
    for path, of_text in pieces.items():
        place = TextPlace(LLMStreamFact.kind, (*TEXT_OF_STREAM, str(_name_of(path))))
        yield from edits_of_pieces(text, of_text, masker, place)


def _pieces_in_lines(text: str, masker: Masker) -> dict[StringPath, list[TextPiece]] | None:
    """Return the pieces of a stream whose events are lines, if only the texts that they spell may change.

    It is quick, because lines of one form are read together, and what they have in common is searched once. Return None
    for any other stream, whose events must be read one by one.
    """
    if any(f'"{name}"' in text for name in SPELLED_IN_LISTS):
        return None
    part = Part(text)
    pieces = part.pieces()
    if any(_may_change(line, masker) for line in part.other_lines()):
        return None
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    of_texts: dict[StringPath, list[TextPiece]] = {}
    for path, of_text in pieces.items():
        of_texts[path] = [
            TextPiece(starts[one.line] + one.start + 1, starts[one.line] + one.end - 1, one.text) for one in of_text
        ]
    spelled = {text[piece.start : piece.end] for of_text in of_texts.values() for piece in of_text}
    if any(masker.edits(other, _IN_EVENT) for other in part.varying_strings() - spelled):
        return None
    return of_texts


_IN_EVENT = TextPlace(LLMStreamFact.kind, TEXT_OF_STREAM)


def _may_change(line: str, masker: Masker) -> bool:
    """Return whether a line of a stream changes, apart from its pieces, or is no event and no frame around events."""
    if _FRAMING.fullmatch(line) is not None:
        return False
    events = [*_events(line)]
    if len(events) != 1:
        return True
    [(start, end, event)] = events
    if line[end:].strip() or _FRAMING.fullmatch(line[:start]) is None or not isinstance(event, dict):
        return True
    return any(True for _ in _edits_in_event(line[start:end], masker))


def _edits_of_events(text: str, masker: Masker, spelled: dict[StringPath, list[TextPiece]]) -> Iterator[Edit]:
    """Yield the edits of single strings, and of lines between events. Add the pieces of longer texts to `spelled`."""
    done = 0
    for start, end, event in _events(text):
        yield from _edits_between(text, done, start, masker)
        for edit in _edits_in_event(text[start:end], masker):
            yield Edit(edit.start + start, edit.end + start, edit.text)
        for path, piece in _pieces(text, start, end, event):
            spelled.setdefault(path, []).append(piece)
        done = end
    yield from _edits_between(text, done, len(text), masker)


def _events(text: str) -> Iterator[tuple[int, int, Payload]]:
    """Yield the span and the value of each JSON object or list in a stream.

    One line may have several, as in a list of events. An event may extend over several lines.
    """
    position = 0
    while position < len(text):
        start = _next_bracket(text, position)
        if start is None:
            return
        try:
            event, end = _DECODER.raw_decode(text, start)
        except ours(ValueError, RecursionError):
            line_end = text.find("\n", start)
            position = line_end + 1 if line_end >= 0 else len(text)
            continue
        yield start, end, event
        position = end


_BRACKET = lazy_pattern(r"\{|\[(?!\s*\{)(?!DONE\])")


def _next_bracket(text: str, position: int) -> int | None:
    """Return where the next object or list begins. The list of all events is not taken, because it may be cut off."""
    bracket = _BRACKET.search(text, position)
    if bracket is None:
        return None
    return bracket.start()


def _edits_between(text: str, start: int, end: int, masker: Masker) -> Iterator[Edit]:
    """Yield the edits of lines, or of parts of lines, that are not JSON."""
    for line in re.finditer(r"[^\n]+", text[start:end]):
        if _FRAMING.fullmatch(line[0]) is None:
            for edit in masker.edits(line[0], TextPlace(LLMStreamFact.kind, TEXT_OF_STREAM)):
                yield Edit(
                    edit.start + start + line.start(), edit.end + start + line.start(), edit.text.replace("\n", " ")
                )


def _edits_in_event(event: str, masker: Masker) -> Iterator[Edit]:
    """Yield the edits of the strings of an event that is JSON, each string alone."""
    if not masker.may_change(event):
        return
    edited = edit_json(event, LLMStreamFact.kind, _InEvent(masker), lambda _, __: False)
    yield from edited.edits


class _InEvent:
    """A masker of the strings of events. It leaves out the strings that are pieces of a longer text."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self.numbers = masker.numbers
        self.may_change = masker.may_change

    def edits(self, text: str, place: TextPlace) -> Sequence[Edit]:
        """Return the edits of a string of an event."""
        if not place.is_name and _name_of(place.path) in SPELLED:
            return ()
        return self._masker.edits(text, TextPlace(place.kind, (*TEXT_OF_STREAM, *place.path), place.is_name))


def _name_of(path: Sequence[Payload]) -> Payload:
    """Return the name of the member at a path."""
    return next((key for key in reversed(path) if isinstance(key, str)), "")


def _pieces(text: str, start: int, end: int, event: Payload) -> Iterator[tuple[StringPath, TextPiece]]:
    """Yield the pieces of spelled texts in an event, each with the path of its text.

    If an object has two members of one name, its strings are not joined with those of other events.
    """
    strings = [*strings_of_event(event)]
    literals = [*STRING.finditer(text, start, end)]
    if len(strings) != len(literals):
        for number, literal in enumerate(literals):
            piece = TextPiece(literal.start() + 1, literal.end() - 1, decode_string(text, *literal.span()))
            yield (start, number, ""), piece
        return
    for (path, value), literal in zip(strings, literals, strict=True):
        if value and path and _name_of(path) in SPELLED:
            yield path, TextPiece(literal.start() + 1, literal.end() - 1, value)
