"""Reads which sub-agents a session started: the thread of each sub-agent, and the tool call that started it.

Versions before 0.148 write the event `collab_agent_spawn_end`. Later versions write a `sub_agent_activity`, or a
completed item `SubAgentActivity` or `CollabAgentToolCall`. An activity whose kind is not "started" belongs to an agent
that is known already. The output of the tool `spawn_agent` names the thread, too. The first line of a sub-agent's own
rollout names the thread of its parent (`parent_thread_id`).
"""

from __future__ import annotations

from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.run import Members
from trace_recorder.formats.foreign_runs.stated_values import stated_object
from trace_recorder.values.messages import Payload

SPAWN = "spawn_agent"
"""The tool that starts a sub-agent."""
_ID_LENGTH = 36
"""The length of a thread's id. The name of the thread's file ends with the id."""


class StartedAgent(NamedTuple):
    """A sub-agent: the id of its thread, the id of the tool call that started it, and its name if it is stated."""

    thread_id: str
    call_id: str
    name: str | None


def started_agent(event: Members) -> StartedAgent | None:
    """Return the sub-agent that an event says was started, or None."""
    item = as_dict(event.get("item"))
    kind = as_text(item.get("type")) or as_text(event.get("type"))
    if kind == "collab_agent_spawn_end":
        names = event.get("new_agent_role"), event.get("new_agent_nickname")
        return _agent(event.get("new_thread_id"), event.get("call_id"), *names)
    if kind == "sub_agent_activity" and event.get("kind") == "started":
        return _agent(event.get("agent_thread_id"), event.get("event_id"))
    if kind == "SubAgentActivity" and item.get("kind") == "started":
        return _agent(item.get("agent_thread_id"), item.get("id"))
    if kind == "CollabAgentToolCall" and item.get("tool") == SPAWN:
        thread_id = next(iter(as_list(item.get("receiver_thread_ids"))), None)
        receiver = as_dict(next(iter(as_list(item.get("receiver_agents"))), None))
        return _agent(thread_id, item.get("id"), receiver.get("agent_role"), receiver.get("agent_nickname"))
    return None


def agent_in_output(item: Members) -> StartedAgent | None:
    """Return the sub-agent that an output of `spawn_agent` names, or None."""
    output = stated_object(item.get("output"))
    return _agent(output.get("agent_id"), item.get("call_id"), output.get("nickname"))


def name_in(facts: Members) -> str | None:
    """Return the name that a sub-agent's own rollout states."""
    spawn = as_dict(as_dict(as_dict(facts.get("source")).get("subagent")).get("thread_spawn"))
    stated = (*map(spawn.get, _NAMES), *map(facts.get, _NAMES), spawn.get("agent_path"))
    return next((name for name in map(as_text, stated) if name), None)


_NAMES = ("agent_role", "agent_nickname")


def _agent(thread_id: Payload, call_id: Payload, *names: Payload) -> StartedAgent | None:
    thread, call = as_text(thread_id), as_text(call_id)
    if not thread or not call or len(thread) != _ID_LENGTH:
        return None
    return StartedAgent(thread, call, next((name for name in map(as_text, names) if name), None))
