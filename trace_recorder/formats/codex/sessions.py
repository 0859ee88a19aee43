"""Codex's sessions. The file of a session is called a rollout, and has lines of `{"timestamp", "type", "payload"}`.

`response_item` lines have the model's input and output as items of the Responses dialect. `event_msg` lines have the
texts that the terminal showed. `rollout.py` reads the lines of one file.

A sub-agent has a rollout of its own, which is read together with the rollout of its parent. The event that started the
sub-agent must name the sub-agent's thread. The sub-agent's rollout must be in the same directory, or in the directory
of another day. `inherited.py` finds the lines that a rollout has from another rollout.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.codex.inherited import (
    inherited_and_own,
    rollout_of,
    session_facts,
)
from trace_recorder.formats.codex.rollout import BARE_ITEMS, RolloutReader
from trace_recorder.formats.codex.sub_agents import name_in
from trace_recorder.formats.foreign_runs.agent_history import in_time_order
from trace_recorder.formats.foreign_runs.run import MAIN, Event, ForeignAgent, ForeignRun
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sub_agents import StartedAgents

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


_ENVELOPE = Signs(values={"type": _ENVELOPES}, objects=("payload",))
_OLDEST_HEAD = Signs(members=("id", "timestamp", "instructions"))


def recognizes(source: Source) -> bool:
    """Return whether the first lines have Codex's envelopes, or are items of the oldest rollouts without envelopes."""
    if _ENVELOPE.in_any_line(source):
        return True
    head, *items = [as_dict(line.value) for line in source.first_lines] or [{}]
    if not _OLDEST_HEAD.match(head) or "type" in head:
        return False
    return all(as_text(item.get("type")) in BARE_ITEMS or "record_type" in item for item in items)


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
    reader = RolloutReader(run, agent)
    lines = [*source.lines()]
    facts = session_facts(lines)
    inherited, own = inherited_and_own(source, lines, facts)
    reader.read_lines(own, facts, inherited)
    run.executions += reader.completed.refine(reader.history.executions())
    yield reader.history.events
    sub_agents = StartedAgents(reader.history)
    for started in reader.started.values():
        path = rollout_of(source.path.parent, started.thread_id)
        calls = f"the calls of the sub-agent {started.thread_id}"
        if path is None:
            reader.add_gap(calls, "its rollout is not beside this file")
            continue
        if depth >= _MAX_DEPTH:
            reader.add_gap(calls, "it is too deep below the main agent")
            continue
        if path in main_source.read_too or path == main_source.path:
            continue
        main_source.read_too.add(path)
        sub_source = source.neighbour(path)
        name = started.name or name_in(session_facts(sub_source.first_lines))
        sub_agent = sub_agents.agent(started.thread_id, started.call_id, name)
        run_of_agent = ForeignRun(identity=started.thread_id, executions=run.executions)
        yield from _read_file(sub_source, main_source, run_of_agent, sub_agent, depth + 1)
    yield from sub_agents.executions


_OF_TRAE = Signs(values={"payload/model_provider": {"trae"}})


def recognizes_trae(source: Source) -> bool:
    """Return whether the file is a rollout of TRAE CLI, a fork of Codex: its provider or its instructions say so."""
    if not recognizes(source):
        return False
    if _OF_TRAE.in_any_line(source):
        return True
    payloads = [as_dict(as_dict(line.value).get("payload")) for line in source.first_lines]
    instructions = (as_text(as_dict(payload.get("base_instructions")).get("text")) or "" for payload in payloads)
    return any(text.startswith("You are TRAE CLI") for text in instructions)
