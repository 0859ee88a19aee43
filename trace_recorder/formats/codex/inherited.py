"""Finds the lines that a rollout has from another rollout: the history that a fork or a sub-agent began with.

A rollout with a `history_base` continues another rollout, whose first lines are read before it. Earlier versions copy
these lines to the beginning of the new rollout, after its own `session_meta`, together with the `session_meta` of the
other rollout. A copied line has its original time or the time of the copy, depending on Codex's version. So the end of
a copy is found by the ids of turns, which contain the time when they were made. A rollout without such ids is compared
with the other rollout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trace_recorder.clocks import parse_time
from trace_recorder.dialects.json_access import as_dict, as_int, as_text
from trace_recorder.formats.foreign_runs.run import Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.values.message_equality import json_digest
from trace_recorder.values.messages import Payload

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_WITH_TIME = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""A UUID of version 7. It begins with the milliseconds since 1970."""
_SUFFIXES = (".jsonl", ".jsonl.zst")
_MAX_BASES = 64
"""A fork of forks inherits lines from at most this many rollouts. Earlier lines are a gap of the run."""


def rollout_of(directory: Path, identity: str) -> Path | None:
    """Return the path of the rollout with this id, in a directory or in the directory of another day.

    Return None if there is no such rollout.
    """
    if not _ID.fullmatch(identity):
        return None
    days = directory.parents[:3]
    by_day = len(days) == 3 and all(path.name.isdecimal() for path in (directory, *days[:2]))
    for suffix in _SUFFIXES:
        name = f"*{identity}{suffix}"
        paths = [*directory.glob(name)]
        if not paths and by_day:
            paths = [*days[2].glob(f"*/*/*/{name}")]
        if path := next((path for path in sorted(paths) if path.is_file()), None):
            return path
    return None


def session_facts(lines: list[Line]) -> Members:
    """Return the facts of a rollout from its `session_meta` line, or {}."""
    return next((as_dict(as_dict(line.value).get("payload")) for line in lines if _is_meta(line)), {})


def inherited_and_own(source: Source, lines: list[Line], facts: Members) -> tuple[list[Line | TimedFact], list[Line]]:
    """Return the lines that a rollout has from other rollouts, the oldest first, and the rollout's own lines.

    `lines` are all lines of the rollout, and `facts` are its facts.
    """
    inherited = [*_lines_of_bases(source, facts)]
    begin = next((number for number, line in enumerate(lines, start=1) if _is_meta(line)), 0)
    other: str | None = None  # the session whose `session_meta` directly follows the rollout's own
    for line in lines[begin : begin + 1]:
        identity = as_text(session_facts([line]).get("id"))
        if identity != facts.get("id"):
            other = identity
    origin = as_text(facts.get("forked_from_id")) or other
    if origin is None:
        return inherited, lines
    length = _copied(source, lines[begin:], facts, origin)
    if length is None and other is not None:
        why = f"nothing shows where the copy of {origin} ends: its rollout is not beside this file"
        return [*inherited, TimedFact.gap(what="which calls belong to another session", why=why)], lines
    end = begin + (length or 0)
    return [*inherited, *lines[begin:end]], [*lines[:begin], *lines[end:]]


def _is_meta(line: Line) -> bool:
    return as_dict(line.value).get("type") == "session_meta"


def _lines_of_bases(source: Source, facts: Members) -> Iterator[Line | TimedFact]:
    """Yield the lines of the rollouts that a rollout names as its `history_base`, the oldest first."""
    parts: list[tuple[Source, int]] = []
    read = {source.path}
    while base := as_dict(facts.get("history_base")):
        identity = as_text(base.get("thread_id")) or ""
        path = rollout_of(source.path.parent, identity)
        if path is None or path in read or len(parts) == _MAX_BASES:
            yield TimedFact.gap(
                what="the beginning of the session", why=f"its rollout, {identity}, is not beside this file"
            )
            break
        read.add(path)
        parts.append((source.neighbour(path), as_int(base.get("end_ordinal_exclusive")) or 0))
        facts = session_facts(parts[-1][0].first_lines)
    for part, end in reversed(parts):
        for line in part.lines():
            ordinal = as_int(as_dict(line.value).get("ordinal"))
            if ordinal is None:
                ordinal = line.number - 1
            if ordinal >= end:
                break
            yield line


def _copied(source: Source, lines: list[Line], facts: Members, origin: str) -> int | None:
    """Return how many of the lines after the first `session_meta` are a copy of another rollout's lines.

    Return None if nothing shows where the copy ends. `origin` is the id of the other rollout.
    """
    begin = _milliseconds_in(facts.get("id")) or _milliseconds(facts.get("timestamp"))
    turns = [_milliseconds_in(as_dict(as_dict(line.value).get("payload")).get("turn_id")) for line in lines]
    if begin is not None and any(turn is not None for turn in turns):
        return next((number for number, turn in enumerate(turns) if turn is not None and turn >= begin), len(lines))
    path = rollout_of(source.path.parent, origin)
    if path is not None and path != source.path:  # the first lines of both are the same, but their times may differ
        originals = map(_content, source.neighbour(path).lines())
        return next((number for number, line in enumerate(lines) if _content(line) not in originals), len(lines))
    times = [_milliseconds(as_dict(line.value).get("timestamp")) for line in lines]
    older = [begin is not None and time is not None and time < begin for time in times]
    return next((number for number, is_older in enumerate(older) if not is_older), len(lines)) or None


def _content(line: Line) -> bytes:
    members = as_dict(line.value)
    return json_digest([members.get("type"), members.get("payload", members)])


def _milliseconds_in(identity: Payload) -> int | None:
    """Return the time when an id was made, in milliseconds since 1970, or None if the id does not contain its time."""
    match = _ID_WITH_TIME.fullmatch(as_text(identity) or "")
    if match is None:
        return None
    return int(match[1] + match[2], 16)


def _milliseconds(time: Payload) -> int | None:
    parsed = parse_time(stated_time(time))
    if parsed is None:
        return None
    return int(parsed.timestamp() * 1000)
