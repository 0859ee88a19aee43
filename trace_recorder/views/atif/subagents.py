"""Where sub-agents belong in an ATIF document: to which turn of another conversation, and to which call of it.

An agent that was started in a tool was started by the call for which that tool ran. Any other agent belongs to the last
turn before its first request: of its parent, or of the main agent if the parent is unknown. So a sub-agent of a
sub-agent belongs to the trajectory of its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.conversations.conversation import Conversation
from trace_recorder.views.conversations.turn import Turn


@dataclass(frozen=True, slots=True)
class Parent:
    """The turn during which a conversation began, or None if no turn came before it.

    `call` is known if a tool started it.
    """

    turn: Turn | None = None
    call_id: str | None = None


def parents_of(
    others: Iterable[Conversation],
    mains: Iterable[Conversation],
    turns: Sequence[Turn],
    steps: Mapping[Turn, Sequence[AgentStep]],
) -> dict[Conversation, Parent]:
    """Return the parent of each conversation that is not the main agent's. `turns` are those of the run."""
    started = _calls_by_execution(steps)
    main = {turn for one in mains for turn in one.turns}
    return {one: _parent(one, main, turns[: turns.index(one.turns[0])], started) for one in others}


def _calls_by_execution(steps: Mapping[Turn, Sequence[AgentStep]]) -> dict[str, tuple[Turn, str]]:
    """Index the executions of tools, in which agents may have started: the turn of their step, and their call."""
    return {
        result.execution_id: (turn, result.call_id)
        for turn, of_turn in steps.items()
        for step in of_turn
        for result in step.tool_results
        if result.execution_id is not None
    }


def _parent(
    of: Conversation, main: AbstractSet[Turn], before: Sequence[Turn], started: Mapping[str, tuple[Turn, str]]
) -> Parent:
    """Find a parent among the turns before a conversation.

    So no conversation is its own parent, not even indirectly.
    """
    of_parent = [turn for turn in before if _is_of_agent(turn, of.parent_agent_id)]
    turn, call_id = started.get(of.turns[0].interaction.parent_execution_id or "", (None, None))
    callers = [one for one in before if _has_call(one, call_id)]
    if callers:
        return Parent(_likeliest(callers, turn, of_parent), call_id)
    candidates = of_parent or [one for one in before if one in main]
    return Parent(candidates[-1]) if candidates else Parent()


def _is_of_agent(turn: Turn, agent_id: str | None) -> bool:
    return bool(agent_id) and turn.interaction.agent_id == agent_id


def _has_call(turn: Turn, call_id: str | None) -> bool:
    return any(call.call_id == call_id for call in turn.answer().tool_calls)


def _likeliest(callers: Sequence[Turn], turn: Turn | None, of_parent: Sequence[Turn]) -> Turn:
    """Choose among turns with one call id: the turn of the step, else the last of the parent agent, else the last."""
    if turn is not None and turn in callers:
        return turn
    return ([one for one in callers if one in of_parent] or callers)[-1]
