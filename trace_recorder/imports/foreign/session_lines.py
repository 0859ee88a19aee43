"""The lines of a session that are objects, for formats that have one object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trace_recorder.imports.foreign.run import Members, Missing
from trace_recorder.imports.foreign.source import Line


def session_lines(lines: Iterable[Line], add_missing: Callable[[Missing], object]) -> Iterator[Members]:
    """Yield the objects of lines; `add_missing` is called for each line that is none, and says why."""
    for line in lines:
        if line.why is None and isinstance(line.value, dict):
            yield line.value
        else:
            add_missing(Missing(what=f"line {line.number}", why=line.why or "it is no object"))
