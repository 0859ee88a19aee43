"""Looks for removed texts in the files of runs, byte by byte, after `redact`: nothing of it may be left.

A match that is a part of the format itself does not count, such as "ann" in the kind "annotation". Streams are unpacked
and joined. Patterns are searched in decoded texts, as `redact` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trace_recorder.catalog.index import RunIndex
from trace_recorder.retention.removed_texts import MASK, RemovedTexts, mask_bytes
from trace_recorder.retention.spelled_texts import Span
from trace_recorder.storage.format_words import format_words
from trace_recorder.storage.journal_reader import Record, data_span, read_records
from trace_recorder.storage.redaction.json_strings import decode_string
from trace_recorder.storage.redaction.secret_spans import ANY_MASK
from trace_recorder.storage.rewritten_journal import ENCODED_STREAM, RewrittenJournal
from trace_recorder.storage.text_edits import JsonToken, edit_json, json_tokens

_BLOCK_BYTES, _OVERLAP_BYTES = 4 * 1024 * 1024, 64 * 1024


class Leftover(NamedTuple):
    """A place of a file that still has a removed text."""

    file: Path
    place: str

    def __str__(self) -> str:
        return f"{self.file}: {self.place}"


def in_name(path: Path, removed: RemovedTexts) -> Iterator[Leftover]:
    """Yield a leftover if the name of a run's files has a text. Indexes, tables and messages repeat the name."""
    if spans_in(path.name, removed):
        yield Leftover(path, "the name of the file; rename the .json and the .jsonl, and update indexes and tables")


def in_journal(journal: Path, removed: RemovedTexts) -> Iterator[Leftover]:
    """Yield the records of a journal, and its damaged lines, that still have a text. Raises OSError."""
    rewritten = RewrittenJournal(journal, removed)
    for _ in rewritten.lines():
        continue
    for kind, places in rewritten.counts.places.items():
        if places:
            yield Leftover(journal, f"{places} of the texts in {kind} records")
    offset = 0
    with journal.open("rb") as file:
        for line in file:
            text = line.decode("utf-8", "surrogateescape")
            if spans_in(text, removed):
                yield from _in_line(journal, line, offset, removed)
            offset += len(line)


def _in_line(journal: Path, line: bytes, offset: int, removed: RemovedTexts) -> Iterator[Leftover]:
    for record in read_records(line, offset):
        data = line[record.offset - offset :][: record.length]
        if not isinstance(record, Record):
            if spans_in(data.decode("utf-8", "surrogateescape"), removed):
                yield Leftover(journal, f"a damaged line at byte {record.offset}")
            continue
        first, last = data_span(data) or (0, len(data))
        for place in places_in_json(data[first:last].decode("utf-8", "surrogatepass"), removed):
            yield Leftover(journal, f"record {record.seq} ({record.kind}), {place}")


def places_in_json(text: str, removed: RemovedTexts) -> Iterator[str]:
    """Yield the places of JSON text, as JSON pointers, that have a removed text and are not words of the format."""
    spans = spans_in(text, removed)
    if not spans:
        return
    tokens = [token for token in json_tokens(text) if any(s < token.end and token.start < e for s, e in spans)]
    places = (_pointer(token) for token in tokens if not _is_of_format(text, token, removed))
    yield from dict.fromkeys(places)


def _is_of_format(text: str, token: JsonToken, removed: RemovedTexts) -> bool:
    """Return whether a token is a word of the format, or an encoded stream, whose text is searched unpacked.

    The same is true of a string whose escapes have the letters of a text by chance.
    """
    if token.path[:1] and token.path[0] in ENCODED_STREAM:
        return True
    spelled = text[token.start : token.end]
    if spelled[0] != '"':
        return spelled in {"true", "false", "null"}
    value = decode_string(spelled, 0, len(spelled))
    return (token.is_name and len(token.path) == 1) or value in format_words() or not spans_in(value, removed)


def _pointer(token: JsonToken) -> str:
    pointer = "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in token.path)
    if token.is_name:
        return f"{pointer} (a name)"
    return pointer


def spans_in(text: str, removed: RemovedTexts) -> Sequence[Span]:
    """Return where a text, as it is on file, has one of the removed texts in any encoding, but not inside a mask."""
    spans = [span for each in removed.texts for span in each.spans(text)]
    spans += [(edit.start, edit.end) for each in removed.texts for edit in each.in_base64(text, mask_bytes)]
    if spans and MASK[:10] in text:
        masks = [mask.span() for mask in ANY_MASK.finditer(text)]
        spans = [(start, end) for start, end in spans if not any(s <= start and end <= e for s, e in masks)]
    return spans


def in_document(document: Path, removed: RemovedTexts) -> Iterator[Leftover]:
    """Yield the places of a document that still have a text. Raises OSError.

    A pattern is not searched: a document is made from its journal.
    """
    if not any(in_bytes(document, removed)):
        return
    text = document.read_bytes().decode("utf-8", "surrogateescape")
    places = edit_json(text, "", removed, lambda _, __: False).places
    if places:
        yield Leftover(document, f"{places} of its texts")
    for place in places_in_json(text, removed):
        yield Leftover(document, place)


def in_bytes(path: Path, removed: RemovedTexts) -> Iterator[Leftover]:
    """Yield a leftover if any other file has one of the texts. Raises OSError."""
    with path.open("rb") as file:
        before = b""
        while block := file.read(_BLOCK_BYTES):
            text = (before + block).decode("utf-8", "surrogateescape")
            if spans_in(text, removed):
                yield Leftover(path, "its bytes")
                return
            before = block[-_OVERLAP_BYTES:]


def in_index(index: RunIndex, removed: RemovedTexts) -> Iterator[Leftover]:
    """Yield a leftover if the bytes of an index, or its compressed texts, have one of the texts. Raises OSError."""
    if any(spans_in(text, removed) for text in index.contents()):
        yield Leftover(index.path, "its texts")
    else:
        yield from in_bytes(index.path, removed)
