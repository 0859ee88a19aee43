"""Journals of the tests: written by the format's description, without the package, and read again."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

from trace_recorder.derive.fold import Fold
from trace_recorder.storage.journal_reader import Record, read
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


def records_of(path: Path) -> list[Record]:
    """Return every record of a document's journal. A damaged line is a failure."""
    found = list(read(path.with_suffix(".jsonl").read_bytes()))
    assert all(isinstance(one, Record) for one in found)
    return [one for one in found if isinstance(one, Record)]


def folded(data: bytes, status: Status = "unknown") -> Trajectory:
    """Return the fold of a journal's bytes."""
    fold = Fold()
    for record in read(data):
        fold.add(record)
    return fold.trajectory(status)
