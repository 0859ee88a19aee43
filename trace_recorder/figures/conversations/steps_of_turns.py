"""The agent's steps and the turns of a run: which belong together, and which tools and results the steps add.

A step may have several calls, and several steps may describe one call. So there are two mappings:

- `step_of_turns`: the step in which a call was made. A turn has at most one step; a step may have several turns.
- `steps_by_turn`: the steps that describe a call. A step has at most one turn; a turn may have several steps.

`answered_turns` adds the results of the tools that the model called. Results have two sources. The next request of the
conversation has the text that the model was shown. An agent that records its steps also has the object that the tool
returned. Agents may shorten a result before they show it to the model, so both are kept. An agent that calls tools by
text has no tool calls. The tool results of such an agent are in the next message, which may have any role.

`unrequested_tools_of` finds tools that ran although no model requested them, such as a retriever before the first call
or a linter after each edit. Such tools have separate steps, or they are in the step during which they ran. No request
mentions such tools, so a format that consists of requests and answers cannot show them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.figures.content.chat_form import result_text
from trace_recorder.reading.relations.calls_of_run import interactions_of
from trace_recorder.reading.relations.prompt_relations import turns_of
from trace_recorder.reading.relations.turn import Turn, choice_of, key_of_agent
from trace_recorder.values.checked_types import number_or_text
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, ToolResult
from trace_recorder.values.structs import Struct, replace
from trace_recorder.values.trajectory import AgentStep, Trajectory

TurnKey = tuple[Payload, ...]


# ── the step of a turn ───────────────────────────────────────────────────────────────────────────────────────────────


def step_of_turns(steps: Sequence[AgentStep], turns: Sequence[Turn]) -> dict[Turn, AgentStep]:
    """Return, for each turn, the step in which its call was made.

    A turn and its step name the same call or step number, or else they have the same answer.
    """
    by_key: dict[TurnKey, list[Turn]] = {}
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


def _keys_of_call(call: LLMInteraction) -> Iterator[TurnKey]:
    yield "interaction", call.interaction_id
    if call.step_number is not None:
        yield "number", key_of_agent(call), number_or_text(call.step_number)
        return
    yield from _keys_of_response(call.response, call.response.tool_calls)


def _keys_of_step(step: AgentStep) -> Iterator[TurnKey]:
    if step.interaction is not None:
        yield "interaction", step.interaction.interaction_id
    if not step.derived:  # a derived number is not the agent's own: the agent may have given it to a different step
        yield "number", key_of_agent(step), number_or_text(step.step_number)
    yield from _keys_of_response(step.llm_response or LLMResponse(), step.tool_calls)


def _keys_of_response(response: LLMResponse, calls: Sequence[ToolCall]) -> Iterator[TurnKey]:
    """Yield the keys of a response, the most reliable key first: its id, the ids of its calls, its text."""
    if response.id:
        yield "response", response.id
    if calls:
        yield "calls", *(call.call_id for call in calls)
    if response.content:
        yield "content", response.content


# ── the turn of a step ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StepsByTurn:
    """The steps of each turn: steps that are derived from the turn, and steps that the agent recorded for it.

    `unrequested` has steps with only the tools that no model requested, by their turn. The key of steps without a turn
    is None. The steps in `steps` do not have these tools.
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
    """Return the steps by turn. A step belongs to the turn that it names, or else to the turn that called its tools."""
    by_id = {turn.interaction.interaction_id: turn for turn in turns}
    by_response = _turns_by_response_id(turns)
    without_request = {id(tools.step): tools for tools in unrequested_tools_of(trajectory)}
    matches = StepsByTurn()
    for number, step in enumerate(trajectory.agent_steps, start=1):
        identity = step.interaction.interaction_id if step.interaction else f"step_{number}"
        response_id = step.llm_response.id if step.llm_response else None
        turn = by_id.get(identity) or by_response.get(response_id or "") or _turn_that_called(step, turns)
        matches.add(step, turn, without_request.get(id(step)))
    return matches


def _turns_by_response_id(turns: Sequence[Turn]) -> dict[str, Turn]:
    """Index turns by the ids of their responses. Ids that a local server gave to several responses are left out."""
    counts = Counter(turn.interaction.response.id for turn in turns)
    by_id = {turn.interaction.response.id: turn for turn in turns}
    return {identity: turn for identity, turn in by_id.items() if identity and counts[identity] == 1}


def _turn_that_called(step: AgentStep, turns: Sequence[Turn]) -> Turn | None:
    """Return the turn that made one of the tool calls of a step.

    If several turns made such calls, turns of the step's own agent are preferred, then turns before the step, then the
    newest turn.
    """
    called = {call.call_id for call in step.tool_calls} | {result.call_id for result in step.tool_results}
    callers = [turn for turn in turns if not called.isdisjoint(call.call_id for call in turn.answer().tool_calls)]
    callers = [turn for turn in callers if key_of_agent(turn.interaction) == key_of_agent(step)] or callers
    callers = [turn for turn in callers if turn.interaction.timestamp <= step.timestamp] or callers
    return callers[-1] if callers else None


# ── tools that no model requested ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UnrequestedTools:
    """The tool calls of a step that no model requested, with their results."""

    step: AgentStep
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]

    def tools_step(self) -> AgentStep:
        """Return a copy of the step that has only the unrequested tools."""
        error = self.step.error if is_tools_only(self.step) else None
        return replace(self.step, tool_calls=self.calls, tool_results=self.results, error=error)

    def remaining_step(self) -> AgentStep:
        """Return a copy of the step without the unrequested tools."""
        ids, step = {call.call_id for call in self.calls}, self.step
        calls = tuple(call for call in step.tool_calls if call.call_id not in ids)
        return replace(
            step,
            tool_calls=calls,
            tool_results=tuple(result for result in step.tool_results if result.call_id not in ids),
        )


def unrequested_tools_of(trajectory: Trajectory) -> list[UnrequestedTools]:
    """Return the unrequested tools, step by step.

    In a step that the agent recorded itself, only a tool call whose id this package made up can be unrequested. A call
    with an id of the agent counts as requested.
    """
    responses = [call.response for call in interactions_of(trajectory)]
    requested = {call.call_id for response in responses for call in response.tool_calls}
    requested |= {call.call_id for response in responses for choice in response.choices for call in choice.tool_calls}
    unrequested = []
    for step in trajectory.agent_steps:
        calls = tuple(
            call for call in step.tool_calls if call.call_id not in requested and (step.derived or call.call_id_made_up)
        )
        if calls:
            ids = {call.call_id for call in calls}
            unrequested.append(
                UnrequestedTools(step, calls, tuple(result for result in step.tool_results if result.call_id in ids))
            )
    return unrequested


def is_tools_only(step: AgentStep) -> bool:
    """Whether a step consists of tools that ran outside all steps of the agent."""
    return step.derived and step.interaction is None


# ── the results of the tools that a model called ─────────────────────────────────────────────────────────────────────


class AnsweredTurn(Struct, frozen=True, gc=False):
    """A turn with the results of its tool calls.

    `step` is the agent's step in which the call was made. `next_messages` are the messages of tools and of the user
    that follow the answer in the next request. `next_messages` is empty if no request follows. `results` are the
    results that the agent recorded. `choice` is the index of the answer that the next request continues.
    """

    turn: Turn
    step: AgentStep | None = None
    next_messages: Sequence[Message] = ()
    results: tuple[ToolResult, ...] = ()
    choice: int = 0

    @property
    def interaction(self) -> LLMInteraction:
        """The call to the model."""
        return self.turn.interaction

    @property
    def response(self) -> LLMResponse:
        """The answer. If the call has several answers, it is the answer that the agent continued."""
        response = self.turn.interaction.response
        choice = choice_of(response, self.choice)
        return replace(
            response,
            content=choice.content,
            reasoning=choice.reasoning,
            tool_calls=choice.tool_calls,
            finish_reason=choice.finish_reason,
            interleaved=choice.interleaved,
        )

    def tool_messages(self) -> list[Message]:
        """Return a tool message for each result: the message that the model saw, or else the recorded result."""
        asked = {call.call_id for call in self.response.tool_calls}
        shown = [
            message for message in self.next_messages if message.role == "tool" and (message.call_id or "") in asked
        ]
        seen = {message.call_id for message in shown}
        return shown + [message_of_result(result) for result in self.results if result.call_id not in seen]

    def result_of(self, call_id: str | None) -> ToolResult | None:
        """Return the result that the agent recorded for a tool call."""
        return next((result for result in self.results if result.call_id == call_id), None)


def answered_turns(trajectory: Trajectory) -> list[AnsweredTurn]:
    """Return the turns of a run in the order of time, each with the results of its tool calls."""
    turns = turns_of(trajectory)
    steps = step_of_turns(trajectory.agent_steps, turns)
    # a turn's next request is the first request that continues it exactly, or else the first that continues it
    following = {turn.previous: turn for turn in reversed(turns) if turn.previous is not None and not turn.exact}
    following |= {turn.previous: turn for turn in reversed(turns) if turn.previous is not None and turn.exact}
    answered: list[AnsweredTurn] = []
    for turn in turns:
        after = following.get(turn)
        shown, choice = (after.appended, after.choice) if after else ((), 0)
        unmatched = AnsweredTurn(turn, steps.get(turn), shown, choice=choice)
        results = _results(unmatched.step, unmatched.response.tool_calls)
        answered.append(replace(unmatched, results=results))
    return answered


def message_of_result(result: ToolResult) -> Message:
    """Return a result as a tool message."""
    extra: dict[str, Payload] = {"is_error": True} if result.success is False else {}
    return Message("tool", result_text(result), call_id=result.call_id, name=result.name, extra=extra)


def _results(step: AgentStep | None, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
    """Return the results that an agent recorded for these calls.

    If no result has an id, results and calls are paired in order.
    """
    if step is None:
        return ()
    results = tuple(result for result in step.tool_results if not step.derived or result.duration_seconds is not None)
    if not calls:
        return results
    if len(results) == len(calls) and not any(result.call_id for result in results):
        return tuple(replace(result, call_id=call.call_id) for result, call in zip(results, calls, strict=True))
    ids = {call.call_id for call in calls}
    return tuple(result for result in results if result.call_id in ids)
