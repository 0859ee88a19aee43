"""Writes a journal again with other texts: the one way in which a record is ever changed.

Each record keeps its number, its time and its kind. A `Masker` decides what becomes of its texts, and the CRC is new.
This works on the JSON of a record, and not on its fact, so records and members that only a later version knows are kept
too. Structure is never changed: ids by which records refer to each other, numbers, and the words of the format. A line
that is not a record is kept, and edited as a text. Memory: the longest line, and the text of the longest stream.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from trace_recorder.facts import (
    KINDS,
    FinalizeFact,
    LLMErrorFact,
    LLMResponseFact,
    LLMStreamFact,
    RemovalFact,
    StartFact,
    StreamPart,
    WebsocketEndFact,
    WebsocketFramesFact,
    own_and_foreign_members,
)
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.journal_lines import encode_text
from trace_recorder.storage.journal_reader import BadLine, Record, data_span, json_of_line, read_records
from trace_recorder.storage.rewritten_streams import EditedStream, StreamEdits, StreamScan, part_text
from trace_recorder.storage.spelled_pieces import edits_in_lists, has_lists
from trace_recorder.storage.stream_chunks import ends_after_change, packed
from trace_recorder.storage.text_edits import (
    JsonPath,
    JsonToken,
    Masker,
    TextPlace,
    apply_edits,
    edit_json,
    joined_edits,
)
from trace_recorder.values.json_text import make_json_writer

ENCODED_STREAM = ("zlib", "chunk_ends", "chunk_times")
"""The members of a part of a stream that encode its text and its chunks."""
STRUCTURE = frozenset(
    {
        *("schema", "trajectory_id", "parent", "replay_of", "replayed_from", "forked_at", "process_start", "began"),
        *("interaction_id", "step_id", "execution_id", "parent_execution_id", "api", "method", "status", "time"),
        *("framing", "connection_id", "direction", "transport", "added", *ENCODED_STREAM),
    }
)
"""The members of facts that are no texts: ids of the recorder, words of the format, times, and encoded streams.

A stream in `zlib` is unpacked and edited, and then `chunk_ends` too.
"""
_AGENT_IDS = frozenset({("agent_id",), ("parent_agent_id",)})
"""The paths of ids that are made from the names of agents. Two ids stay different, also if their names change."""
DAMAGED = "damaged"
"""The kind of a text that is not a record."""
_PACKED_LEVEL = 6
_BEGINS = tuple(
    f'"kind":"{kind.kind}"'.encode()
    for kind in (LLMStreamFact, LLMResponseFact, LLMErrorFact, WebsocketFramesFact, WebsocketEndFact)
)
_HEAD_BYTES = 160
_dump = make_json_writer(",", ":")


@dataclass(slots=True)
class RewriteCounts:
    """What a rewriting has seen and changed.

    `places` counts the changed places by the kind of their records. `damaged` counts the lines that are not records.
    `last_seq` is the number of the newest record. `start` is the first fact. `has_end` is whether the run has an end.
    `removals` is how many times texts were removed before.
    """

    records: int = 0
    damaged: int = 0
    last_seq: int = 0
    start: StartFact | None = None
    has_end: bool = False
    removals: int = 0
    places: Counter[str] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Whether no line is damaged, and no record is missing before the last one."""
        return not self.damaged and self.records == self.last_seq

    def add(self, record: Record) -> None:
        """Count a record."""
        self.records += 1
        self.last_seq = max(self.last_seq, record.seq)
        if isinstance(record.fact, StartFact) and self.start is None:
            self.start = record.fact
        self.has_end = self.has_end or isinstance(record.fact, FinalizeFact)
        self.removals += isinstance(record.fact, RemovalFact)


class RewrittenJournal:
    """The lines of a journal after a masker has changed them. `counts` is complete when `lines` has yielded all lines.

    The file is read twice: first to join the parts of its streams, then line by line. The streams are joined only once,
    also if `lines` is called again.
    """

    def __init__(self, journal: Path, masker: Masker) -> None:
        self._journal = journal
        self._masker = masker
        self._agents: dict[str, str] = {}
        self._streams: dict[int, EditedStream] | None = None
        self.counts = RewriteCounts()

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines, each with its newline. Raises OSError."""
        self.counts = RewriteCounts()
        with self._journal.open("rb") as file:
            if self._streams is None:
                self._streams = self._edited_streams(file)
                file.seek(0)
            edits = StreamEdits(self._streams)
            offset = 0
            for line in file:
                yield self._line(line, offset, edits)
                offset += len(line)
            if offset and not line.endswith(b"\n"):
                yield b"\n"

    def _edited_streams(self, file: BinaryIO) -> dict[int, EditedStream]:
        """Edit the streams of the journal. Return those that change, by the offset of their first part."""
        scan = StreamScan(file, self._masker)
        offset = 0
        for line in file:
            if any(map(line[:_HEAD_BYTES].__contains__, _BEGINS)) or not line.startswith(b'{"seq":'):
                for record in read_records(line, offset):
                    if isinstance(record, Record):
                        scan.add(record)
            offset += len(line)
        scan.end()
        return scan.edited

    def _line(self, line: bytes, offset: int, edits: StreamEdits) -> bytes:
        """Return a line with its records, and what is between them, changed."""
        parts: list[bytes] = []
        done = 0
        for record in read_records(line, offset):
            start = record.offset - offset
            end = start + record.length
            parts.append(line[done:start])
            if isinstance(record, BadLine):
                parts.append(self._damaged(line[start:end]))
            else:
                parts.append(self._record(record, line[start:end], edits))
            done = end
        return b"".join([*parts, line[done:]])

    def _damaged(self, data: bytes) -> bytes:
        """Return bytes that are not a record, edited as one text. They stay on their line."""
        self.counts.damaged += 1
        text = data.decode("utf-8", "surrogateescape")
        edits = self._masker.edits(text, TextPlace(DAMAGED, ()))
        self.counts.places[DAMAGED] += len(edits)
        return apply_edits(text, edits).replace("\n", " ").encode("utf-8", "surrogateescape")

    def _record(self, record: Record, line: bytes, streams: StreamEdits) -> bytes:
        self.counts.add(record)
        replaced = self._changed_stream(record, streams)
        span = data_span(line)
        first, last = span or (0, len(line))  # the time of a record may look like an address
        data = line[first:last].decode("utf-8", "surrogatepass")
        if not (replaced or self._masker.may_change(data) or has_lists(data)):
            return line
        if span is None:  # another program has written this line, in its own form
            members = json_of_line(line)
            head = f'{{"seq":{record.seq},"time":{json.dumps(record.time)},"kind":{json.dumps(record.kind)},"data":'
            begin, data = head.encode(), _dump(members["data"])
        else:
            begin = line[:first]
        edited = edit_json(
            data, record.kind, self._masker, _Structure(record.kind), replaced=replaced, rename=self._rename
        )
        self.counts.places[record.kind] += edited.places
        edits = joined_edits([*edited.edits, *edits_in_lists(data, record.kind, self._masker)])
        if not edits:
            return line
        changed = apply_edits(data, edits)
        try:
            whole = begin + encode_text(changed)
        except ours(UnicodeEncodeError):  # half of a surrogate pair, which the line had too
            whole = begin + changed.encode("utf-8", "surrogatepass")
        return b'%s,"crc":"%08x"}' % (whole, crc32(whole))

    def _changed_stream(self, record: Record, streams: StreamEdits) -> Mapping[JsonPath, str]:
        """Return the new values of the members of a part of a stream, by their paths."""
        self.counts.places[record.kind] += streams.places(record.offset)
        changed = streams.changed_part(record)
        if changed is None or not isinstance(record.fact, StreamPart):
            return {}
        members: dict[JsonPath, str] = {("zlib",): packed(changed, _PACKED_LEVEL)}
        if record.fact.chunk_ends is not None:
            try:
                members["chunk_ends",] = ends_after_change(
                    record.fact.chunk_ends, part_text(record.fact) or b"", changed
                )
            except ours(ValueError):  # the chunks do not fit, and are unknown to readers
                pass
        return members

    def _rename(self, path: JsonPath, before: str, changed: str) -> str:
        """Return the changed text at a path. The ids of two agents stay different."""
        if path not in _AGENT_IDS:
            return changed
        taken = self._agents.values()
        if before not in self._agents and changed in taken:
            changed = f"{changed} {len(self._agents) + 1}"
        return self._agents.setdefault(before, changed)


class _Structure:
    """Tells which tokens of a record's data belong to the format: names of the fact's members, ids, own numbers.

    The tokens come in the order of the data, in which `strings` is before the `value` that has its placeholders.
    """

    def __init__(self, kind: str) -> None:
        self._foreign: tuple[str, ...] | None = None
        """The members whose numbers are texts of others. None for a kind that this version does not know: all."""
        if kind in KINDS:
            self._foreign = own_and_foreign_members(KINDS[kind])[1].names
        self._placeholders: set[str] = set()

    def __call__(self, token: JsonToken, spelled: str) -> bool:
        if not token.path:
            return False
        first = token.path[0]
        if first in STRUCTURE:
            return True
        if token.is_name:
            return self._is_own_name(first, token.path)
        if spelled[0] == '"':
            return spelled[1:-1] in self._placeholders
        return self._foreign is not None and first not in self._foreign

    def _is_own_name(self, first: str | int, path: JsonPath) -> bool:
        if first == "strings" and len(path) == 2:
            self._placeholders.add(str(path[1]))
            return True
        if first == "items":
            return len(path) != 2  # the names of the body's members are those that the body has
        return len(path) == 1
