"""Which steps of the agent and which turns belong together.

Two questions have different answers if a step has several calls, or several steps describe one call:

- `step_of_turns`: in which step a call was made. Each turn has one step at most; a step may have several turns.
- `steps_by_turn`: which steps describe a call. Each step has one turn at most; a turn may have several steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload, ToolCall
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.conversations.call_chains import Turn, agent_key
from trace_recorder.views.conversations.unrequested_tools import UnrequestedTools, unrequested_tools_of

Key = tuple[Payload, ...]


# ── the step of a turn ───────────────────────────────────────────────────────────────────────────────────────────────


def step_of_turns(steps: Sequence[AgentStep], turns: Sequence[Turn]) -> dict[Turn, AgentStep]:
    """Find the step in which each turn was made: the step that both name, or else the step with the same contents."""
    by_key: dict[Key, list[Turn]] = {}
    for turn in turns:
        for key in _keys_of_call(turn.interaction):
            by_key.setdefault(key, []).append(turn)
    step_of: dict[Turn, AgentStep] = {}
    for step in steps:
        for key in _keys_of_step(step):
            candidates = [turn for turn in by_key.get(key, ()) if turn not in step_of]
            if candidates:
                step_of |= dict.fromkeys(candidates if key[0] == "number" else candidates[:1], step)
                break
    return step_of


def _keys_of_call(call: LLMInteraction) -> Iterator[Key]:
    yield "interaction", call.interaction_id
    if call.step_number is not None:
        yield "number", agent_key(call), number_or_text(call.step_number)
        return
    yield from _keys_of_response(call.response, call.response.tool_calls)


def _keys_of_step(step: AgentStep) -> Iterator[Key]:
    if step.interaction is not None:
        yield "interaction", step.interaction.interaction_id
    if not step.derived:  # the agent may have used a derived number for another step
        yield "number", agent_key(step), number_or_text(step.step_number)
    yield from _keys_of_response(step.llm_response or LLMResponse(), step.tool_calls)


def _keys_of_response(response: LLMResponse, calls: Sequence[ToolCall]) -> Iterator[Key]:
    """Yield what identifies a response, the most reliable first: its id, the ids of its calls, its text."""
    if response.id:
        yield "response", response.id
    if calls:
        yield "calls", *(call.call_id for call in calls)
    if response.content:
        yield "content", response.content


# ── the turn of a step ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StepsByTurn:
    """The steps of each turn: those that are derived from it, and those that the agent recorded for it.

    Tools that no model requested are not in `steps`. They are in `unrequested`, by their step's turn, or by None.
    """

    steps: dict[Turn, list[AgentStep]] = field(default_factory=dict)
    unrequested: dict[Turn | None, list[AgentStep]] = field(default_factory=dict)

    def add(self, step: AgentStep, turn: Turn | None, unrequested: UnrequestedTools | None) -> None:
        """Add a step of a turn, and its tools that no model requested. `turn` is None for a step without a turn."""
        if unrequested is not None:
            self.unrequested.setdefault(turn, []).append(unrequested.tools_step())
        if turn is not None:
            self.steps.setdefault(turn, []).append(unrequested.remaining_step() if unrequested else step)


def steps_by_turn(trajectory: Trajectory, turns: Sequence[Turn]) -> StepsByTurn:
    """Find the turn of each step: the one that it names, or else the one that called its tools."""
    by_id = {turn.interaction.interaction_id: turn for turn in turns}
    by_response = _turns_by_response_id(turns)
    without_request = {id(one.step): one for one in unrequested_tools_of(trajectory)}
    matches = StepsByTurn()
    for number, step in enumerate(trajectory.agent_steps, start=1):
        identity = step.interaction.interaction_id if step.interaction else f"step_{number}"
        response_id = step.llm_response.id if step.llm_response else None
        turn = by_id.get(identity) or by_response.get(response_id or "") or _turn_that_called(step, turns)
        matches.add(step, turn, without_request.get(id(step)))
    return matches


def _turns_by_response_id(turns: Sequence[Turn]) -> dict[str, Turn]:
    """Index turns by the ids of their responses, without ids that local servers gave to several of them."""
    ids = [one.response.id for turn in turns if (one := turn.interaction).response.id]
    unique = {identity for identity in ids if ids.count(identity) == 1}
    return {one.response.id: turn for turn in turns if (one := turn.interaction).response.id in unique}


def _turn_that_called(step: AgentStep, turns: Sequence[Turn]) -> Turn | None:
    """Return the newest turn before a step that made one of its tool calls, of the step's own agent if possible."""
    called = {call.call_id for call in step.tool_calls} | {result.call_id for result in step.tool_results}
    callers = [turn for turn in turns if not called.isdisjoint(call.call_id for call in turn.answer().tool_calls)]
    for prefers in (_has_agent_of, _is_before):
        callers = [turn for turn in callers if prefers(turn, step)] or callers
    return callers[-1] if callers else None


def _has_agent_of(turn: Turn, step: AgentStep) -> bool:
    return agent_key(turn.interaction) == agent_key(step)


def _is_before(turn: Turn, step: AgentStep) -> bool:
    return turn.interaction.timestamp <= step.timestamp
