"""Side calls: calls that a program makes beside its conversation.

A side call gets, for example, a title or a topic, or checks a quota. No program marks side calls in its requests
(Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and opencode 1.18 do not), so side calls are derived. Only runs of the
proxy have side calls. In any other run, the author of the agent knows which calls the agent makes. In such a run, a
call without tools, such as a call that plans, is a part of the work. A side call has no tools, although its agent
offers tools in other calls. The prompt of a side call has no answer of a model. No other call continues a side call. A
second request for a title, with the same instructions, does not count as a continuation.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.reading.relations.calls_of_run import interactions_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, key_of_agent
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.trajectory import Trajectory


def side_calls(trajectory: Trajectory, turns: Sequence[Turn]) -> frozenset[Turn]:
    """Return the side calls of a run. `turns` are all its turns."""
    if not is_of_proxy(trajectory):
        return frozenset()
    with_tools = {key_of_agent(turn.interaction) for turn in turns if turn.tools}
    alone = {
        turn
        for turn in turns
        if not turn.tools
        and key_of_agent(turn.interaction) in with_tools
        and turn.previous is None
        and _asks_once(turn.interaction)
    }
    continued = {turn.previous for turn in turns} | {turn.in_chain_of for turn in turns if turn not in alone}
    return frozenset(alone - continued)


def side_calls_of(trajectory: Trajectory) -> frozenset[str]:
    """Return the ids of the side calls of a run. The conversations are read only if some call may be a side call."""
    if not is_of_proxy(trajectory):
        return frozenset()
    calls = interactions_of(trajectory)
    without_tools = [call for call in calls if not call.tools]
    if len(without_tools) in {0, len(calls)} or not any(map(_asks_once, without_tools)):
        return frozenset()
    return frozenset(turn.interaction.interaction_id for turn in side_calls(trajectory, turns_of(trajectory)))


def is_of_proxy(trajectory: Trajectory) -> bool:
    """Whether the proxy recorded the run. The proxy writes into the metadata how it found the session."""
    return "session_from" in trajectory.metadata


def _asks_once(call: LLMInteraction) -> bool:
    """Whether the request of a call was captured, and the prompt has no answer of a model."""
    is_captured = call.api is not None and call.source.has_request()
    return is_captured and all(message.role != "assistant" for message in call.input_messages)
