"""Journals for `compare-checkouts`: a form without times and ids of chance, and damaged copies.

Only the frame of a line is known here, as `docs/format.md` describes it. The package is not imported.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zlib import crc32

Payload = Any

BEGAN = datetime(2025, 6, 12, 20, 5, 46, tzinfo=UTC)
_LINE = re.compile(rb'\{"seq":(\d+),"time":"([^"]*)","kind":"([^"]*)","data":(.*),"crc":"[0-9a-f]{8}"\}', re.DOTALL)
_SECONDS = re.compile(rb'("(?:[a-z_]+_seconds|execution_time)": ?)-?\d[\d.e+-]*')
_CHUNK_TIMES = re.compile(rb'("chunk_times": ?")([A-Za-z0-9+/]+)')
_CHUNK_TIME = re.compile(rb"[g-z0-9+/]*[A-Za-f]")
_CHUNK_ENDS = re.compile(rb'("chunk_ends": ?")[^"]+')
_CHUNKS = re.compile(rb'("chunks": ?)\d+')
_PROCESS = re.compile(rb'("(?:pid|process_start)": ?)\d[\d.e+]*')
_VERSIONS = re.compile(rb'("(?:recorder|python)": ?)"[^"]*"')
_ADDRESS = re.compile(rb"(127\.0\.0\.1|localhost):\d+")
_ID = re.compile(rb"\b(?:[0-9a-f]{32}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b")
_MEMORY_ADDRESS = re.compile(rb"\bat 0x[0-9a-f]+")


@dataclass(slots=True)
class Canonical:
    """Replaces everything in the files of one run that differs from recording to recording.

        These are times, durations, ids, processes, ports and directories. Ids are numbered in the order in which they
    occur, so that references between files stay. The machine's name stays, because it decides whether a run without an
    end is interrupted. `days` are the dates (YYYY-MM-DD) on which the runs were recorded: only times of these days are
    replaced, because recorded bytes have times of their own. `places` are directories. If a run was answered over a
    socket, the operating system decides where its chunks end, so `over_sockets` hides that.
    """

    days: tuple[str, ...]
    places: tuple[bytes, ...]
    over_sockets: bool = False
    _ids: dict[bytes, bytes] = field(default_factory=dict)

    def journal(self, data: bytes) -> bytes:
        """Return a journal whose lines have fixed times. Each line has the right CRC."""
        return b"".join(map(self._line, data.splitlines(keepends=True)))

    def _line(self, line: bytes) -> bytes:
        match = _LINE.fullmatch(line.rstrip(b"\n"))
        if match is None:
            return self.text(line)
        seq, time, kind, data = match.groups()
        if self._day.search(time):
            time = (BEGAN + timedelta(seconds=int(seq))).isoformat(timespec="microseconds").encode()
        return line_of(int(seq), time, kind, self.text(data))

    def text(self, text: bytes) -> bytes:
        """Return a text with fixed times, ids, ports and directories."""
        for place in self.places:
            text = text.replace(place, b"/place")
        text = _SECONDS.sub(rb"\g<1>0.25", text)
        text = _CHUNK_TIMES.sub(lambda match: match[1] + _CHUNK_TIME.sub(b"A", match[2]), text)
        text = _PROCESS.sub(rb"\g<1>1", text)
        text = _VERSIONS.sub(rb'\g<1>"this"', text)
        text = _ADDRESS.sub(rb"\g<1>:1", text)
        text = _MEMORY_ADDRESS.sub(b"at 0x1", text)
        if self.over_sockets:
            text = _CHUNKS.sub(rb"\g<1>1", _CHUNK_ENDS.sub(rb"\g<1>*", _CHUNK_TIMES.sub(rb"\g<1>A", text)))
        text = self._day.sub(BEGAN.isoformat(timespec="microseconds").encode(), text)
        return _ID.sub(self._number, text)

    def _number(self, match: re.Match[bytes]) -> bytes:
        known = self._ids.setdefault(match[0], b"%032x" % (len(self._ids) + 1))
        return (
            known
            if b"-" not in match[0]
            else b"-".join((known[:8], known[8:12], known[12:16], known[16:20], known[20:]))
        )

    @property
    def _day(self) -> re.Pattern[bytes]:
        days = "|".join(self.days).encode()
        return re.compile(rb"(?:" + days + rb")[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")


def line_of(seq: int, time: bytes, kind: bytes, data: bytes) -> bytes:
    """Return a line of a journal."""
    head = b'{"seq":%d,"time":"%b","kind":"%b","data":%b' % (seq, time, kind, data)
    return b'%b,"crc":"%08x"}\n' % (head, crc32(head))


# ── damaged copies ───────────────────────────────────────────────────────────────────────────────────────────────────


OTHERS: tuple[Callable[[], Payload], ...] = (
    *(lambda: None, lambda: True, lambda: False, lambda: 0, lambda: -1, lambda: 1.5, lambda: 2**70, lambda: 10**400),
    *(str, lambda: "x", lambda: "x" * 20_000, lambda: "\ud800", lambda: "2025-99-99", lambda: "{", lambda: "[1]"),
    *(list, lambda: ["text"], lambda: [[]], lambda: [None], lambda: [{}], lambda: [1, "x", None, {}]),
    *(dict, lambda: {"__type__": "x", "repr": "y"}, lambda: {"": None}, lambda: {"type": ["text"]}, lambda: [[0, 1]]),
)
"""Values of every type, which replace any other value."""


def damaged_copies(data: bytes, name: str, retyped: int) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies of a journal, each with a name that says what is wrong with it.

    The copies are: cut after each record, and in the middle of each fifth record; without each record; with two records
    exchanged; with a wrong byte in each fifth line; for each member of each kind, without that member in every record;
    and `retyped` copies in which values have other types.
    """
    lines = data.splitlines(keepends=True)
    for number in range(1, len(lines)):
        yield f"cut after record {number}", b"".join(lines[:number])
        yield f"without record {number}", b"".join(lines[:number] + lines[number + 1 :])
        if number % 5 == 1:
            yield f"cut inside record {number + 1}", b"".join(lines[:number]) + lines[number][: len(lines[number]) // 2]
            yield f"a wrong byte in record {number + 1}", _flipped(lines, number)
            yield f"records {number} and {number + 1} exchanged", _exchanged(lines, number)
    yield from _without_members(lines)
    for number in range(retyped):
        yield f"other types {number}", _retyped(lines, Random(f"{name} {number}"))


def _without_members(lines: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield a copy for each member that a kind of record has: all records of the kind lack the member."""
    records = _records(lines)
    members = dict.fromkeys((record.kind, name) for record in records for name in record.data)
    for kind, name in members:
        changed = [
            replace(record, data={other: value for other, value in record.data.items() if other != name})
            if record.kind == kind
            else record
            for record in records
        ]
        yield f"{kind.decode()} without {name}", b"".join(map(_line_of, changed))


@dataclass(frozen=True, slots=True)
class _Record:
    seq: int
    time: bytes
    kind: bytes
    data: Payload


def _records(lines: list[bytes]) -> list[_Record]:
    """Return the records of lines. Damaged lines are left out."""
    matches = filter(None, (_LINE.fullmatch(line.rstrip(b"\n")) for line in lines))
    return [_Record(int(match[1]), match[2], match[3], json.loads(match[4])) for match in matches]


def _line_of(record: _Record) -> bytes:
    data = json.dumps(record.data, separators=(",", ":")).encode()
    return line_of(record.seq, record.time, record.kind, data)


def _flipped(lines: list[bytes], number: int) -> bytes:
    line = bytearray(lines[number])
    line[len(line) // 2] ^= 1
    return b"".join([*lines[:number], bytes(line), *lines[number + 1 :]])


def _exchanged(lines: list[bytes], number: int) -> bytes:
    return b"".join([*lines[: number - 1], lines[number], lines[number - 1], *lines[number + 1 :]])


def _retyped(lines: list[bytes], random: Random) -> bytes:
    """Return a journal in which one to three values, at any depth, have another type or are missing."""
    records = _records(lines)
    data = copy.deepcopy([record.data for record in records])
    for _ in range(random.randint(1, 3)):
        holder, member = random.choice([*_places(data)])
        if isinstance(holder, dict) and random.random() < 0.1:
            del holder[member]
        else:
            holder[member] = random.choice(OTHERS)()
    pairs = zip(records, data, strict=False)
    return b"".join(_line_of(replace(record, data=changed)) for record, changed in pairs)


def _places(value: Payload) -> Iterator[tuple[Payload, Payload]]:
    if isinstance(value, dict):
        pairs = [*value.items()]
    elif isinstance(value, list):
        pairs = [*enumerate(value)]
    else:
        return
    for name, member in pairs:
        if name not in {"schema", "version"}:
            yield value, name
        yield from _places(member)
