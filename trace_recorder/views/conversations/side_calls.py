"""Side calls: calls that a program makes beside its conversation, such as for a title, a topic, or its quota.

No program states them on the wire (Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and opencode 1.18 do not), so they are
derived. Only runs of the proxy have side calls: the author of an agent knows its calls, and a call that plans without
tools is a part of the work. A side call meets three conditions. Its agent offers tools in other calls, and none in this
call. No answer of a model is in its prompt. No other call continues it. Another side call with the same instructions,
such as a second request for a title, does not continue it.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.conversations.call_chains import Turn, interactions_of, turns_of
from trace_recorder.views.conversations.chained_call import agent_key


def side_calls(trajectory: Trajectory, turns: Sequence[Turn]) -> frozenset[Turn]:
    """Return the side calls of a run, among all its turns."""
    if not _is_of_proxy(trajectory):
        return frozenset()
    with_tools = {agent_key(turn.interaction) for turn in turns if turn.tools}
    alone = {
        turn
        for turn in turns
        if not turn.tools
        and agent_key(turn.interaction) in with_tools
        and turn.previous is None
        and _asks_once(turn.interaction)
    }
    continued = {turn.previous for turn in turns} | {turn.in_chain_of for turn in turns if turn not in alone}
    return frozenset(alone - continued)


def side_calls_of(trajectory: Trajectory) -> frozenset[str]:
    """Return the ids of the side calls of a run. Its conversations are read only if a call may be a side call."""
    if not _is_of_proxy(trajectory):
        return frozenset()
    calls = interactions_of(trajectory)
    without_tools = [one for one in calls if not one.tools]
    if len(without_tools) in {0, len(calls)} or not any(map(_asks_once, without_tools)):
        return frozenset()
    return frozenset(turn.interaction.interaction_id for turn in side_calls(trajectory, turns_of(trajectory)))


def _is_of_proxy(trajectory: Trajectory) -> bool:
    """Whether the proxy recorded the run: it states how it knew the session."""
    return "session_from" in trajectory.metadata


def _asks_once(one: LLMInteraction) -> bool:
    """Whether the request of a call was captured, and no model has said a part of its prompt."""
    is_captured = one.api is not None and one.source.has_request()
    return is_captured and all(message.role != "assistant" for message in one.input_messages)
