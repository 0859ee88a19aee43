"""Damaged copies of a file: cut, with changed bytes, with values of other types; and what holds of reading them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from trace_recorder.errors import TrajectoryFormatError
from trace_recorder.imports.foreign.formats import FORMATS, Source, format_of, journal_lines
from trace_recorder.imports.loader import load_lines

_OTHERS: tuple[Any, ...] = (None, True, -7, 1.5, "x", [], {}, [{}], [["x"]], {"type": "text", "text": 3}, 10**400)


def damaged(data: bytes, cuts: int = 60, types: int = 3) -> Iterator[bytes]:
    """Yield damaged copies of a file of JSON, or of lines of JSON. Each value becomes one of so many other types."""
    step = max(1, len(data) // cuts)
    for at in range(0, len(data), step):
        yield data[:at]
        yield data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        yield data[:at] + data[at + step :]
    yield from _retyped(data, types)


def _retyped(data: bytes, types: int) -> Iterator[bytes]:
    """Yield copies in which one value, at any depth, has another type."""
    lines = data.split(b"\n")
    documents = (
        [json.loads(data)] if _is_json(data) else [json.loads(line) if _is_json(line) else None for line in lines]
    )
    turn = cycle(_OTHERS)
    for at, document in enumerate(documents):
        for path in _paths(document, ()):
            for other in islice(turn, types):
                changed = json.dumps(_with(document, path, other)).encode()
                yield b"\n".join([*lines[:at], changed, *lines[at + 1 :]]) if len(documents) > 1 else changed


def _is_json(data: bytes) -> bool:
    with suppress(ValueError):
        json.loads(data)
        return True
    return False


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield from _paths(inner, (*path, name))


def _with(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    name, *rest = path
    if isinstance(value, dict):
        return {**value, name: _with(value[name], tuple(rest), other)}
    return [*value[:name], _with(value[name], tuple(rest), other), *value[name + 1 :]]


def read_damaged(path: Path) -> None:
    """Read a file that may be damaged: it is refused with a clear error, or its runs can be read in full."""
    source = Source(path)
    found = format_of(source)
    if found is None:
        return
    with suppress(TrajectoryFormatError):
        for run in import_module(f"trace_recorder.imports.foreign.{FORMATS[found]}").read(source):
            run.format = found
            assert load_lines(b"".join(journal_lines(run)), path).to_document()
