"""Codex's sessions. The file of a session is called a rollout, and has lines of `{"timestamp", "type", "payload"}`.

`response_item` lines have the model's input and output as items of the Responses dialect. `event_msg` lines have the
texts that the terminal showed. `rollout.py` reads the lines of one file.

A sub-agent has a rollout of its own, which is read together with the rollout of its parent. The event that started the
sub-agent must name the sub-agent's thread. The sub-agent's rollout must be in the same directory, or in the directory
of another day. A rollout with a `history_base` continues another rollout, whose first lines are read before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trace_recorder.dialects.json_access import as_dict, as_int, as_text
from trace_recorder.imports.foreign.agent_history import AgentHistory, in_time_order
from trace_recorder.imports.foreign.codex.rollout import BARE_ITEMS, RolloutReader
from trace_recorder.imports.foreign.formats import ImportFormat
from trace_recorder.imports.foreign.run import (
    MAIN,
    Event,
    ForeignAgent,
    ForeignRun,
    Members,
    Missing,
    ToolRun,
    joined_id,
)
from trace_recorder.imports.foreign.source import Line, Source
from trace_recorder.values.token_counts import WHOLE

_ENVELOPES = {
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
    "world_state",
    "token_usage_record",
}
_MAX_DEPTH = 8
"""At most this many levels of sub-agents are read. Deeper sub-agents are left out."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUFFIXES = (".jsonl", ".jsonl.zst")
_MAX_BASES = 64
"""A fork of forks inherits lines from at most this many rollouts. Earlier lines are a gap of the run."""


def recognizes(source: Source) -> bool:
    """Return whether the first lines have Codex's envelopes, or are items of the oldest rollouts without envelopes."""
    lines = [as_dict(line.value) for line in source.first_lines]
    if any(as_text(line.get("type")) in _ENVELOPES and isinstance(line.get("payload"), dict) for line in lines):
        return True
    oldest = bool(lines) and {"id", "timestamp", "instructions"} <= {*lines[0]} and "type" not in lines[0]
    return oldest and all(as_text(line.get("type")) in BARE_ITEMS or "record_type" in line for line in lines[1:])


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file, with the sub-agents whose rollouts are beside it."""
    run = ForeignRun(identity=source.path.name.partition(".")[0], provider="openai")
    events = _read_file(source, source, run, MAIN, 0)
    run.events = in_time_order(*events)
    yield run


def _read_file(
    source: Source, main_source: Source, run: ForeignRun, agent: ForeignAgent, depth: int
) -> Iterator[list[Event]]:
    """Yield the events of a file.

    For each sub-agent, yield the execution that started the sub-agent, and the events of the sub-agent's file.
    """
    reader = RolloutReader(run, AgentHistory([], agent))
    lines = [*source.lines()]
    facts = session_facts(lines)
    reader.read_lines(lines, facts, [*inherited_lines(source, facts)])
    run.executions += reader.completed.refine(reader.history.executions())
    yield reader.history.events
    executions = {event.call_id: event for event in reader.history.events if isinstance(event, ToolRun)}
    for started, name, call_id in reader.started:
        path = rollout_of(source.path.parent, started)
        execution = executions.get(call_id) or reader.history.execution_of(call_id)
        if path is None or path in main_source.read_too or path == main_source.path or depth >= _MAX_DEPTH:
            continue
        main_source.read_too.add(path)
        if execution is not None:
            execution.execution_id = joined_id("execution-of", call_id)
            yield [] if call_id in executions else [execution]
        sub_agent = ForeignAgent(
            name=name,
            agent_id=started,
            parent_agent_id=agent.agent_id,
            parent_execution_id=None if execution is None else execution.execution_id,
        )
        run_of_agent = ForeignRun(identity=started, executions=run.executions)
        yield from _read_file(source.neighbour(path), main_source, run_of_agent, sub_agent, depth + 1)


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
        paths = [*directory.glob(name)] or ([*days[2].glob(f"*/*/*/{name}")] if by_day else [])
        if path := next((path for path in sorted(paths) if path.is_file()), None):
            return path
    return None


def session_facts(lines: list[Line]) -> Members:
    """Return the facts of a rollout from its `session_meta` line, or {}."""
    metas = (as_dict(line.value) for line in lines)
    return next((as_dict(meta.get("payload")) for meta in metas if meta.get("type") == "session_meta"), {})


def inherited_lines(source: Source, facts: Members) -> Iterator[Line | Missing]:
    """Yield the lines that a rollout inherits from other rollouts, the oldest first.

    `facts` has the facts of the rollout.
    """
    parts: list[tuple[Source, int]] = []
    read = {source.path}
    while base := as_dict(facts.get("history_base")):
        identity = as_text(base.get("thread_id")) or ""
        path = rollout_of(source.path.parent, identity)
        if path is None or path in read or len(parts) == _MAX_BASES:
            yield Missing(what="the beginning of the session", why=f"its rollout, {identity}, is not beside this file")
            break
        read.add(path)
        parts.append((source.neighbour(path), as_int(base.get("end_ordinal_exclusive")) or 0))
        facts = session_facts(parts[-1][0].first_lines)
    for part, end in reversed(parts):
        for line in part.lines():
            ordinal = as_int(as_dict(line.value).get("ordinal"))
            if (line.number - 1 if ordinal is None else ordinal) >= end:
                break
            yield line


FORMAT = ImportFormat(name="codex", recognizes=recognizes, read=read, counting=WHOLE)


def recognizes_trae(source: Source) -> bool:
    """Return whether the file is a rollout of TRAE CLI, a fork of Codex: its provider or its instructions say so."""
    if not recognizes(source):
        return False
    payloads = [as_dict(as_dict(line.value).get("payload")) for line in source.first_lines]
    instructions = (as_text(as_dict(payload.get("base_instructions")).get("text")) or "" for payload in payloads)
    return any(payload.get("model_provider") == "trae" for payload in payloads) or any(
        text.startswith("You are TRAE CLI") for text in instructions
    )


TRAEX = ImportFormat(name="traex", recognizes=recognizes_trae, read=read, counting=WHOLE)
