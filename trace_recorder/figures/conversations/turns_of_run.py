"""The turns of a whole run: which calls are turns, which earlier turn each turn continues, and which are side calls.

`turn.py` defines a turn, and `call_chains.py` finds the turn that a call continues. Embeddings are not turns. If a run
recorded its steps and no calls, each step that the agent recorded is a turn.

A side call is a call that a program makes beside its conversation, for example to get a title or a topic, or to check
its quota. No program marks side calls in its requests (Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and opencode 1.18
do not), so side calls are derived. Only runs of the proxy have side calls. In any other run, the author of the agent
knows which calls the agent makes. In such a run, a call without tools, such as a call that plans, is a part of the
work. A side call has no tools, although its agent offers tools in other calls. The prompt of a side call has no answer
of a model. No other call continues a side call. A second request for a title, with the same instructions, does not
count as a continuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import is_turn
from trace_recorder.figures.conversations.call_chains import CallChains
from trace_recorder.figures.conversations.turn import Turn, agent_key
from trace_recorder.values.llm_interaction import ErrorInfo, LLMInteraction, WithoutRawData
from trace_recorder.values.messages import NO_RESPONSE, LLMResponse, Message, RequestReading, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory

# ── the turns ────────────────────────────────────────────────────────────────────────────────────────────────────────


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """Return the turns of a run in the order of time. If no calls were recorded, the turns are made from the steps."""
    calls = interactions_of(trajectory)
    turns = [*map(CallChains().add, calls)]
    separate_calls = _separate_calls(turns)
    return [*map(CallChains(separate_calls).add, calls)] if separate_calls else turns


class TurnsOnDemand:
    """Returns the same turns as `turns_of`, but reads only the calls up to the requested call.

    Later calls decide whether a call of unclear origin belongs to a chain. So all calls are read when the first such
    call appears.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        calls = interactions_of(trajectory)
        self._ids = {call.interaction_id for call in calls}
        self._remaining = iter(calls)
        self._chains = CallChains()
        self._turns: dict[str, Turn] = {}

    def __call__(self, call: LLMInteraction) -> Turn | None:
        """Return the turn of a call, or None if the call is in no conversation."""
        if call.interaction_id not in self._ids:
            return None
        while call.interaction_id not in self._turns:
            turn = self._chains.add(next(self._remaining))
            turns = turns_of(self._trajectory) if _is_unclear(turn) else [turn]
            self._turns |= {turn.interaction.interaction_id: turn for turn in turns}
            self._remaining = iter(()) if _is_unclear(turn) else self._remaining
        return self._turns[call.interaction_id]


def interactions_of(trajectory: Trajectory) -> list[LLMInteraction]:
    """Return the calls of a run except embeddings. If no calls were recorded, return the agent's own steps as calls."""
    turns = {*filter(is_turn, {call.api for call in trajectory.llm_interactions})}
    calls = [call for call in trajectory.llm_interactions if call.api in turns]
    if calls or trajectory.llm_interactions:
        return calls
    steps = enumerate(trajectory.agent_steps, start=1)
    return [call_of_step(number, step) for number, step in steps if not step.derived]


def _separate_calls(turns: Sequence[Turn]) -> frozenset[str]:
    """Return the ids of the unclear calls (`_is_unclear`) that belong to no chain.

    An unclear call belongs to no chain if a later call continues the call before the unclear call.
    """
    numbers = {turn: number for number, turn in enumerate(turns)}
    continued_at = {turn.previous: number for turn, number in numbers.items() if turn.exact and turn.previous}
    latest: dict[Turn, Turn] = {}
    separate = set()
    for turn, number in numbers.items():
        before = turn.previous or latest.get(turn.chain_start)
        if _is_unclear(turn) and before is not None and continued_at.get(before, -1) > number:
            separate.add(turn.interaction.interaction_id)
        elif turn.answered:
            latest[turn.chain_start] = turn
    return frozenset(separate)


def _is_unclear(turn: Turn) -> bool:
    """Whether it is unclear which earlier turn a turn continues.

    The earlier turn is unclear if the history and the instructions were changed, or if the history was changed and the
    turn continues no answer.
    """
    return turn.relation in {"edits", "rewrites"} and (turn.previous is None or turn.instructions_changed)


# ── steps as calls ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _StepCall(WithoutRawData):
    """The source of a call that is only known from its step."""

    messages: list[Message]
    new_tool_results: list[ToolResult] = field(default_factory=list)

    def request(self) -> RequestReading:
        return RequestReading(self.messages)

    def request_without_messages(self) -> RequestReading:
        return self.request()

    def has_request(self) -> bool:
        return bool(self.messages)


def call_of_step(number: int, step: AgentStep) -> LLMInteraction:
    """Return a step as an interaction. `number` counts all steps of the run from 1, and is a part of the id."""
    response = step.llm_response
    if step.tool_calls and not (response and response.tool_calls):
        response = LLMResponse(response.content if response else None, tool_calls=tuple(step.tool_calls))
    return LLMInteraction(
        interaction_id=f"step_{number}",
        timestamp=step.timestamp,
        provider=None,
        model=response.model if response else None,
        source=_StepCall(list(step.messages or ())),
        step_number=step.step_number,
        agent=step.agent,
        agent_id=step.agent_id,
        parent_agent_id=step.parent_agent_id,
        response=response or NO_RESPONSE,
        error=ErrorInfo("error", step.error) if step.error else None,
    )


# ── side calls ───────────────────────────────────────────────────────────────────────────────────────────────────────


def side_calls(trajectory: Trajectory, turns: Sequence[Turn]) -> frozenset[Turn]:
    """Return the side calls of a run. `turns` are all its turns."""
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
    """Return the ids of the side calls of a run. The conversations are read only if some call may be a side call."""
    if not _is_of_proxy(trajectory):
        return frozenset()
    calls = interactions_of(trajectory)
    without_tools = [call for call in calls if not call.tools]
    if len(without_tools) in {0, len(calls)} or not any(map(_asks_once, without_tools)):
        return frozenset()
    return frozenset(turn.interaction.interaction_id for turn in side_calls(trajectory, turns_of(trajectory)))


def _is_of_proxy(trajectory: Trajectory) -> bool:
    """Whether the proxy recorded the run. The proxy writes into the metadata how it found the session."""
    return "session_from" in trajectory.metadata


def _asks_once(call: LLMInteraction) -> bool:
    """Whether the request of a call was captured, and the prompt has no answer of a model."""
    is_captured = call.api is not None and call.source.has_request()
    return is_captured and all(message.role != "assistant" for message in call.input_messages)
