"""Damage to a file of another tool: the intact part is read, or an error says why it cannot be read."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.formats.files import runs_of
from tests.searching import part_of
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.reading.own_files import load_lines
from trace_recorder.values.messages import Payload

MAX_RETYPED = 150
_OTHERS: tuple[Payload, ...] = (None, True, -1, 1e300, "", "text", "\ud800", [], [[]], [None], {}, {"a": []})


def check_damaged(path: Path, data: bytes) -> None:
    """Read damaged forms of a file.

    Check that each is read, or refused with a TrajectoryFormatError that a reader raises itself.
    """
    for damaged in part_of((*_cut(data), *_flipped(data), *_some([*_retyped(data)]))):
        path.write_bytes(damaged)
        error = _unexpected_error(path)
        assert error is None, (traceback.format_exception(error)[-2:], damaged)


def _unexpected_error(path: Path) -> BaseException | None:
    """Return the reader's unexpected error, which a TrajectoryFormatError wraps, or None."""
    try:
        for run in runs_of(path):
            load_lines(journal_lines(run), path).to_document()
    except TrajectoryFormatError as error:
        return None if "a damaged ATIF document" in str(error) else error.__cause__
    return None


def _some(copies: list[bytes]) -> list[bytes]:
    """Return every copy of a small file, and a part of the copies of a larger one, from its beginning to its end."""
    return copies[:: len(copies) // MAX_RETYPED + 1]


def _cut(data: bytes) -> Iterator[bytes]:
    yield from (data[: len(data) * at // 40] for at in range(40))


def _flipped(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), len(data) // 60 + 1):
        yield data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :]


def _retyped(data: bytes) -> Iterator[bytes]:
    """Yield the JSON, or each of its lines, once without each value and once with each value replaced by
    another type. Other data has no copies.
    """
    try:
        yield from map(_encoded, _variants(json.loads(data)))
    except UnicodeDecodeError:
        return
    except ValueError:
        lines = data.splitlines(keepends=True)
        for at, line in enumerate(lines):
            with suppress(ValueError):
                for value in _variants(json.loads(line)):
                    yield b"".join([*lines[:at], _encoded(value), b"\n", *lines[at + 1 :]])


def _encoded(value: Payload) -> bytes:
    return json.dumps(value).encode()


def _variants(value: Payload, turn: int = 0) -> Iterator[Payload]:
    """Yield copies of the value with one change each, at every place in it. The types of the new values take turns."""
    yield _OTHERS[turn % len(_OTHERS)]
    yield _OTHERS[(turn * 7 + 5) % len(_OTHERS)]
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for number, (name, inner) in enumerate(members):
        for changed in _variants(inner, turn + number + 1):
            copy = value.copy()
            copy[name] = changed
            yield copy
        without = value.copy()
        del without[name]
        yield without
