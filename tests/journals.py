"""Journals of the tests: written by the format's description, without the package, and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from trace_recorder.reading.fold import Fold
from trace_recorder.storage.journal_reader import BadLine, Record, read_records
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Status, Trajectory

TIME = "2025-06-12T22:05:46.433797+00:00"


def line(seq: int, kind: str, data: Payload, time: str = TIME) -> bytes:
    """Return a line of a journal, made by the format's description without the package."""
    head = f'{{"seq":{seq},"time":"{time}","kind":"{kind}","data":{json.dumps(data)}'.encode()
    return b'%s,"crc":"%08x"}\n' % (head, crc32(head))


def journal_of(*records: tuple[str, Payload]) -> bytes:
    """Return a whole journal of (kind, data)."""
    return b"".join(line(seq, kind, data) for seq, (kind, data) in enumerate(records, start=1))


class RawRecord(NamedTuple):
    """A record with its data as JSON, which a reader of the package gets as a fact."""

    seq: int
    time: str
    kind: str
    data: dict[str, Payload]
    offset: int
    length: int


def read_raw(data: bytes) -> list[RawRecord | BadLine]:
    """Return the records that the package finds in a journal's bytes, with their JSON, and its damaged lines."""
    return [one if isinstance(one, BadLine) else _raw(one, data) for one in read_records(data)]


def _raw(record: Record, data: bytes) -> RawRecord:
    fields = json.loads(data[record.offset : record.offset + record.length].decode("utf-8", "surrogatepass"))
    assert (fields["seq"], fields["time"], fields["kind"]) == (record.seq, record.time, record.kind)
    return RawRecord(record.seq, record.time, record.kind, fields["data"], record.offset, record.length)


def records_of(path: Path) -> list[RawRecord]:
    """Return every record of a document's journal. A damaged line is a failure."""
    found = read_raw(path.with_suffix(".jsonl").read_bytes())
    assert all(isinstance(one, RawRecord) for one in found)
    return [one for one in found if isinstance(one, RawRecord)]


def folded(data: bytes, status: Status = "unknown") -> Trajectory:
    """Return the fold of a journal's bytes."""
    fold = Fold()
    for record in read_records(data):
        fold.add([record])
    return fold.trajectory(status)
