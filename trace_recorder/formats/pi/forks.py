"""Finds the lines of a fork of pi's sessions that are copies of another session's lines.

The header of a fork names the file of the other session (`parentSession`, in older versions `branchedFrom`). The copied
lines keep their ids and times. A session may also name another session without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload


class CopiedLines:
    """The lines that a session has from another session."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._origin: str | None = None
        self._keys: set[bytes] = set()
        self._begin = ""

    def note_header(self, header: Members, time: str) -> None:
        """Read the lines of the other session, if the header of the session names one and its file is found.

        Only one other session is read, although a file may repeat the header.
        """
        origin = as_text(header.get("parentSession")) or as_text(header.get("branchedFrom"))
        if origin and self._origin is None:
            self._origin, self._begin = origin, time
            self._keys = {_key(as_dict(line.value)) for line in _lines_of(self._source, origin)}

    def has(self, line: Members, time: str) -> bool:
        """Return whether a line is a copy: it is older than the session, or a line of the other session's file."""
        if line.get("type") == "session":
            return False
        is_older = bool(time) and time < self._begin
        return is_older or (bool(self._keys) and _key(line) in self._keys)


def _key(line: Members) -> bytes:
    identity: Payload = line.get("id")
    if identity is None:
        return json_digest(line)
    return json_digest([line.get("type"), identity, line.get("timestamp")])


def _lines_of(source: Source, origin: str) -> Iterator[Line]:
    """Yield the lines of the other session's file, which is in the same directory or in a directory beside it.

    Only the name of the file `origin` is used, so that no file elsewhere is read.
    """
    name = origin.replace("\\", "/").rpartition("/")[2]
    if not name:
        return
    path = source.path.absolute()
    for other in (path.with_name(name), *sorted(path.parent.parent.glob(f"*/{escape(name)}"))):
        if other.is_file() and other != path:
            yield from source.neighbour(other).lines()
            return
