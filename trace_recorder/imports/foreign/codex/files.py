"""The files of a session: the rollouts that one refers to, and the lines that a fork takes from the one before it.

A file's name ends with the id of its rollout, and with `.jsonl.zst` once it was idle for a week. A rollout with a
`history_base` begins with the lines of another one up to an ordinal, which are not repeated in it. Source:
`codex-rs/rollout/src` (`compression.rs`, `rollout_reference_index.rs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_int, as_text
from trace_recorder.imports.foreign.run import Members, Missing
from trace_recorder.imports.foreign.source import Line, Source

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUFFIXES = (".jsonl", ".jsonl.zst")
_MAX_BASES = 64
"""How many rollouts a fork of forks may take its history from."""


def rollout_of(directory: Path, identity: str) -> Path | None:
    """Return the rollout with an id, in a directory or another day's beside it; None if there is none."""
    if not _ID.fullmatch(identity):
        return None
    days = directory.parents[:3]
    by_day = len(days) == 3 and all(path.name.isdecimal() for path in (directory, *days[:2]))
    for suffix in _SUFFIXES:
        name = f"*{identity}{suffix}"
        paths = [*directory.glob(name)] or ([*days[2].glob(f"*/*/*/{name}")] if by_day else [])
        if path := next((path for path in sorted(paths) if path.is_file()), None):
            return path
    return None


def about(lines: list[Line]) -> Members:
    """Return what the first lines of a rollout say of it; {} where they say nothing."""
    metas = (as_dict(line.value) for line in lines)
    return next((as_dict(meta.get("payload")) for meta in metas if meta.get("type") == "session_meta"), {})


def inherited(source: Source, own: Members) -> Iterator[Line | Missing]:
    """Yield the lines that a rollout takes from others, oldest first; `own` is what it says of itself."""
    parts: list[tuple[Source, int]] = []
    read = {source.path}
    while base := as_dict(own.get("history_base")):
        identity = as_text(base.get("thread_id")) or ""
        path = rollout_of(source.path.parent, identity)
        if path is None or path in read or len(parts) == _MAX_BASES:
            yield Missing(what="the beginning of the session", why=f"its rollout, {identity}, is not beside this file")
            break
        read.add(path)
        parts.append((source.neighbour(path), as_int(base.get("end_ordinal_exclusive")) or 0))
        own = about(parts[-1][0].first_lines)
    for part, end in reversed(parts):
        yield from takewhile(partial(_is_before, end), part.lines())


def _is_before(end: int, line: Line) -> bool:
    ordinal = as_int(as_dict(line.value).get("ordinal"))
    return (line.number - 1 if ordinal is None else ordinal) < end
