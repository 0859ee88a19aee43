"""Reads the facts of a run from the beginning and the end of its document, without the calls and steps between them.

A document has the facts of its run before its calls, and the outcome and the metrics after its steps (`Trajectory.head`
and `tail`). Each of these members begins a line. The calls and steps are neither read nor checked. A document in
another form than ours must be read as a whole.
"""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path

from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload

HEAD_BYTES = 4096
TAIL_BYTES = 8192
MAX_BYTES = 1024 * 1024
"""After this many bytes, neither the search from the beginning nor the search from the end reads more.

`document_ends` then returns None.
"""

_BEGINNING = b"{\n"
_BEFORE_CALLS = b'"llm_interactions": ['
_AFTER_STEPS = b'\n"success": '


def document_ends(path: Path) -> dict[str, Payload] | None:
    """Return the members of a document before its calls and after its steps.

    Return None for a document in another form than ours.

    Raises OSError if the file cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        head = document_head(file)
        if head is None:
            return None
        tail = _tail(file)
    if tail is None:
        return None
    return {**head, **tail}


def document_head(file: FileIO) -> dict[str, Payload] | None:
    """Return the members of an open document before its calls, or None for a document in another form than ours."""
    data = file.read(HEAD_BYTES)
    while data.startswith(_BEGINNING):
        end = data.find(_BEFORE_CALLS)
        if end >= 0:
            return _object(data[:end].rstrip().rstrip(b",") + b"}")
        if len(data) >= MAX_BYTES:
            break
        more = file.read(7 * len(data))
        if not more:
            break
        data += more
    return None


def _tail(file: FileIO) -> dict[str, Payload] | None:
    size = os.fstat(file.fileno()).st_size
    length = TAIL_BYTES
    while True:
        file.seek(max(0, size - length))
        tail = _members_after_steps(file.read())
        if tail is not None or length >= min(size, MAX_BYTES):
            return tail
        length *= 8


def _members_after_steps(data: bytes) -> dict[str, Payload] | None:
    """Return the members after the steps, from the first line at which the rest of the file is a JSON object."""
    position = data.find(_AFTER_STEPS)
    while position >= 0:
        members = _object(b"{" + data[position:])
        if members is not None and "status" in members:
            return members
        position = data.find(_AFTER_STEPS, position + 1)
    return None


def _object(data: bytes) -> dict[str, Payload] | None:
    try:
        value = json.loads(data)
    except ours(ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return value
