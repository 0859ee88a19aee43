"""Damage to a file of another tool: the intact part is read, or an error says why it cannot be read."""

from __future__ import annotations

import json
import traceback
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.formats.files import runs_of
from tests.searching import covering, part_of
from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.reading.own_files import load_lines
from trace_recorder.values.messages import Payload

MAX_RETYPED = 150
_OTHERS: tuple[Payload, ...] = (None, True, -1, 1e300, "", "text", "\ud800", [], [[]], [None], {}, {"a": []})


def check_damaged(path: Path, data: bytes) -> None:
    """Read damaged forms of a file.

    Check that each is read, or refused with a TrajectoryFormatError that a reader raises itself. CI cuts and flips at
    every sixth place, and at other places in files of other lengths. It puts a wrong value into each member once.
    """
    retyped = _some(covering([*_retyped(data)], _Retyped.kinds))
    elsewhere = part_of((*_cut(data), *_flipped(data)), 6, len(data) % 6)
    for damaged in (*elsewhere, *map(_Retyped.encoded, retyped)):
        path.write_bytes(damaged)
        error = _unexpected_error(path)
        assert error is None, (traceback.format_exception(error)[-2:], damaged)


class _Retyped(NamedTuple):
    """A copy of a document, or of a line with the lines around it, with one changed value and the names above that."""

    names: tuple[str, ...]
    is_empty: bool
    document: Payload
    before: bytes = b""
    after: bytes = b""

    def kinds(self) -> tuple[Hashable, ...]:
        """Return the place of a value of another type. All empty and missing values are of one kind."""
        return ("empty" if self.is_empty else self.names,)

    def encoded(self) -> bytes:
        return self.before + json.dumps(self.document).encode() + self.after


def _unexpected_error(path: Path) -> BaseException | None:
    """Return the reader's unexpected error, which a TrajectoryFormatError wraps, or None."""
    try:
        for run in runs_of(path):
            load_lines(journal_lines(run), path).to_document()
    except TrajectoryFormatError as error:
        return None if "a damaged ATIF document" in str(error) else error.__cause__
    return None


def _some(copies: Sequence[_Retyped]) -> Sequence[_Retyped]:
    """Return every copy of a small file, and a part of the copies of a larger one, from its beginning to its end."""
    return copies[:: len(copies) // MAX_RETYPED + 1]


def _cut(data: bytes) -> Iterator[bytes]:
    yield from (data[: len(data) * at // 40] for at in range(40))


def _flipped(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), len(data) // 60 + 1):
        yield data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :]


def _retyped(data: bytes) -> Iterator[_Retyped]:
    """Yield the JSON, or each of its lines, once without each value and once with each value replaced by
    another type. Other data has no copies.
    """
    try:
        yield from _variants(json.loads(data))
    except UnicodeDecodeError:
        return
    except ValueError:
        lines = data.splitlines(keepends=True)
        for at, line in enumerate(lines):
            with suppress(ValueError):
                before, after = b"".join(lines[:at]), b"".join([b"\n", *lines[at + 1 :]])
                for changed in _variants(json.loads(line)):
                    yield changed._replace(before=before, after=after)


def _variants(value: Payload, turn: int = 0, names: tuple[str, ...] = ()) -> Iterator[_Retyped]:
    """Yield copies of the value with one change each, at every place in it. The types of the new values take turns."""
    for number in (turn, turn * 7 + 5):
        other = _OTHERS[number % len(_OTHERS)]
        yield _Retyped(names, not other, other)
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for number, (name, inner) in enumerate(members):
        inside = (*names, name) if isinstance(name, str) else names
        for changed in _variants(inner, turn + number + 1, inside):
            copy = value.copy()
            copy[name] = changed.document
            yield changed._replace(document=copy)
        without = value.copy()
        del without[name]
        yield _Retyped(inside, True, without)
