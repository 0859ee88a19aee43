"""Writes a journal again without its texts: each record keeps its number, its time and its kind.

A line that is not a record is left out: nobody knows what it is, so all of it may be text. Memory: the longest line, a
digest for each large string that the journal stores once, and ranges of the numbers of items.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trace_recorder.facts import KINDS, Json, StartFact
from trace_recorder.storage.content_tiers.records import STREAM_MEMBERS, TextlessRecords
from trace_recorder.storage.content_tiers.text_digests import TextDigests
from trace_recorder.storage.content_tiers.tiers import Content
from trace_recorder.storage.content_tiers.vocabulary import TIME
from trace_recorder.storage.journal_lines import encode_lines
from trace_recorder.storage.journal_reader import BadLine, Record, json_of_line, read_records
from trace_recorder.storage.redaction.redactor import Redaction
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.json_text import make_json_writer

_SEARCHED_TOGETHER = 8 * 1024
"""Records of so many characters are searched for secrets together, because each search costs."""
UNKNOWN_KIND = "unknown"
"""The kind of a record whose kind this version does not know."""
_dump = make_json_writer(",", ":", allow_nan=False)


class TextlessRecord(NamedTuple):
    """A record without its texts. `time` is empty if the record has something else there. `text` is `data` in JSON."""

    kind: str
    seq: int
    time: str
    data: Json
    text: str

    @property
    def line(self) -> bytes:
        """The line of the record, with its newline."""
        [line] = encode_lines([(self.kind, self.text)], self.seq, self.time)
        return line


class TextlessJournal:
    """The lines of a journal without its texts.

    `key` is the key of the digests. `hidden` are identifiers, such as the names of tools, of which only digests are
    written too.
    """

    def __init__(self, journal: Path, key: bytes, hidden: Collection[str] = ()) -> None:
        self._journal = journal
        self._records = TextlessRecords(TextDigests(key, hidden))
        self._redaction = Redaction(default_redactor, textless=self._records)
        self.damaged = 0
        """How many lines were left out so far, because they are not records."""

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines, each with its newline. Raises OSError."""
        for record in self.records():
            yield record.line

    def records(self) -> Iterator[TextlessRecord]:
        """Yield the records without their texts. Raises OSError.

        The file is read twice, because an item may be far before the record that says where it belongs.
        """
        with self._journal.open("rb") as file:
            for line in file:
                if b'"items":{' in line:
                    for record in read_records(line):
                        if isinstance(record, Record):
                            self._records.places.add(_data(record, line).get("items"))
            file.seek(0)
            together: list[TextlessRecord] = []
            size = 0
            for line in file:
                for record in read_records(line):
                    if isinstance(record, BadLine):
                        self.damaged += 1
                        continue
                    together.append(self._record(record, _data(record, line)))
                    size += len(together[-1].text)
                    if size > _SEARCHED_TOGETHER:
                        yield from self._masked(together)
                        together, size = [], 0
            yield from self._masked(together)

    def _record(self, record: Record, saved: Json) -> TextlessRecord:
        kind = UNKNOWN_KIND
        if record.kind in KINDS:
            kind = record.kind
        time = ""
        if TIME.fullmatch(record.time):
            time = record.time
        data = self._records.saved_data(record.kind, saved, self._masked_stream)
        if kind == StartFact.kind:
            data["content"] = "none"
        text = _dump({name: data[name] for name in data if name not in STREAM_MEMBERS})
        return TextlessRecord(kind, record.seq, time, data, text)

    def _masked(self, records: Sequence[TextlessRecord]) -> Iterator[TextlessRecord]:
        """Yield the records with the secrets in their identifiers masked. Their texts have no streams before."""
        masked = self._redaction.mask_all([record.text for record in records])
        for record, (text, count) in zip(records, masked, strict=True):
            streams = {name: record.data[name] for name in record.data if name in STREAM_MEMBERS}
            if count:
                data = json.loads(text) | streams
                yield record._replace(data=data, text=_dump(data))
            elif streams:
                yield record._replace(text=_dump(record.data))
            else:
                yield record

    def _masked_stream(self, data: bytes) -> bytes:
        masked, _, _ = self._redaction.mask_stream(data)
        return masked


def _data(record: Record, line: bytes) -> Json:
    """Return the data of a record as JSON. `line` has the record."""
    data: Json = json_of_line(line[record.offset : record.offset + record.length])["data"]
    return data


def with_content(line: bytes, content: Content) -> bytes:
    """Return the line of a journal with the tier in it, and without the host, if it is the first record of a run."""
    for record in read_records(line):
        if isinstance(record, Record) and record.kind == StartFact.kind and content != "full":
            data = {name: value for name, value in _data(record, line).items() if name != "host"}
            own = {name: data.pop(name) for name in [*data] if name not in {"task", "metadata"}}
            members = json.dumps({**own, "content": content, **data}, separators=(",", ":"))
            [new_line] = encode_lines([(record.kind, members)], record.seq, record.time)
            return new_line
    return line
