"""Where sub-agents hang in an ATIF document: for which turn of whose conversation, and for which call, each began.

An agent that was started in a tool was started by the call for which that tool ran. Of any other it is known around
which agent's block its own began, or not even that: it hangs on the last turn of that agent, or of the main one, before
its first request. A sub-agent of a sub-agent so hangs on that one's trajectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.conversations.call_chains import Turn
from trace_recorder.views.conversations.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Parent:
    """The turn for which a conversation began, None where there was none before it, and the call, where it is known."""

    turn: Turn | None = None
    call_id: str | None = None


def parents_of(
    others: Iterable[Conversation],
    mains: Iterable[Conversation],
    turns: Sequence[Turn],
    told: Mapping[Turn, Sequence[AgentStep]],
) -> dict[Conversation, Parent]:
    """Say for each of the conversations that are not the main agent's where it hangs; `turns` are those of the run."""
    started = _started(told)
    main = {turn for one in mains for turn in one.turns}
    return {one: _parent(one, main, turns[: turns.index(one.turns[0])], started) for one in others}


def _started(told: Mapping[Turn, Sequence[AgentStep]]) -> dict[str, tuple[Turn, str]]:
    """The executions of tools in which agents were started: of which turn's step, and for which call."""
    return {
        result.execution_id: (turn, result.call_id)
        for turn, steps in told.items()
        for step in steps
        for result in step.tool_results
        if result.execution_id is not None
    }


def _parent(
    of: Conversation, main: AbstractSet[Turn], before: Sequence[Turn], started: Mapping[str, tuple[Turn, str]]
) -> Parent:
    """Where a conversation hangs, of the turns before it: so that none hangs on itself, however far around."""
    first = of.turns[0].interaction
    parents = [turn for turn in before if of.parent_agent_id and turn.interaction.agent_id == of.parent_agent_id]
    inside = started.get(first.parent_execution_id or "")
    if inside is not None:
        turn, call_id = inside
        asked = [one for one in before if any(call.call_id == call_id for call in one.answer().tool_calls)]
        likeliest = [one for one in asked if one is turn] or [one for one in asked if one in parents] or asked
        if likeliest:
            return Parent(likeliest[-1], call_id)
    candidates = parents or [turn for turn in before if turn in main]
    return Parent(candidates[-1]) if candidates else Parent()
