"""OpenClaw's sessions: it runs pi, and writes pi's lines with entries of its own."""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.imports.foreign import pi_session
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.run import ForeignRun
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.token_counts import CACHE_APART

_DIRECTORY = ".openclaw"
_ENTRIES = ("model-snapshot", "openclaw")


def recognizes(source: Source) -> bool:
    """Whether the file is a session of pi in OpenClaw's directory, or with its entries."""
    if not pi_session.recognizes(source):
        return False
    lines = [as_dict(line.value) for line in source.first_lines]
    return any(
        _DIRECTORY in (as_text(line.get("cwd")) or "") or (as_text(line.get("customType")) or "").startswith(_ENTRIES)
        for line in lines
    )


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one session of a file."""
    return pi_session.read(source)


FORMAT = ImportFormat(name="openclaw", recognizes=recognizes, read=read, counting=CACHE_APART)
