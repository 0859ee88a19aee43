"""The results of the tools that a model called, turn by turn.

Results have two sources. The next request of the conversation has the text that the model was shown. An agent that
records its steps also has the object that the tool returned. Agents shorten what they show, so both are kept. A text
agent has no tool calls: its results are in the next message, which may have any role.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, ToolResult
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.conversations.call_chains import Turn, turns_of
from trace_recorder.views.conversations.chained_call import choice_of
from trace_recorder.views.conversations.step_matching import step_of_turns


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A turn with the results of its tool calls.

    `step` is the agent's step in which it was made. `next_messages` are the messages of tools and of the user that
    follow the answer in the next request. They are empty if no request follows. `results` are those that the agent
    recorded. `choice` is the number of the answer that the next request continues.
    """

    turn: Turn
    step: AgentStep | None = None
    next_messages: tuple[Message, ...] = ()
    results: tuple[ToolResult, ...] = ()
    choice: int = 0

    @property
    def interaction(self) -> LLMInteraction:
        """The call to the model."""
        return self.turn.interaction

    @property
    def response(self) -> LLMResponse:
        """The answer. Of several answers, it is the one that was continued."""
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
        """Return a tool message for each result: the one that the model saw, else one made from the recorded result."""
        asked = {call.call_id for call in self.response.tool_calls}
        shown = [
            message for message in self.next_messages if message.role == "tool" and (message.call_id or "") in asked
        ]
        seen = {message.call_id for message in shown}
        return shown + [message_of(result) for result in self.results if result.call_id not in seen]

    def result_of(self, call_id: str | None) -> ToolResult | None:
        """Return the result that the agent recorded for a tool call."""
        return next((result for result in self.results if result.call_id == call_id), None)


def answered_turns(trajectory: Trajectory) -> list[AnsweredTurn]:
    """Return the turns of a run in the order of time, each with the results of its tool calls."""
    turns = turns_of(trajectory)
    steps = step_of_turns(trajectory.agent_steps, turns)
    following = {turn.previous: turn for turn in reversed(turns) if turn.previous is not None and not turn.exact}
    following |= {turn.previous: turn for turn in reversed(turns) if turn.previous is not None and turn.exact}
    answered: list[AnsweredTurn] = []
    for turn in turns:
        after = following.get(turn)
        shown, choice = (after.appended, after.choice) if after else ((), 0)
        one = AnsweredTurn(turn, steps.get(turn), shown, choice=choice)
        answered.append(dataclasses.replace(one, results=_results(one.step, one.response.tool_calls)))
    return answered


def message_of(result: ToolResult) -> Message:
    """Make a tool message of a result."""
    extra: dict[str, Payload] = {"is_error": True} if result.success is False else {}
    return Message("tool", result_text(result), call_id=result.call_id, name=result.name, extra=extra)


# ── what the agent recorded ──────────────────────────────────────────────────────────────────────────────────────────


def _results(step: AgentStep | None, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
    """Return the results that an agent recorded for these calls. Those without ids are in the order of the calls."""
    if step is None:
        return ()
    results = tuple(one for one in step.tool_results if not step.derived or one.duration_seconds is not None)
    return _results_of_calls(results, calls) if calls else results


def _results_of_calls(results: tuple[ToolResult, ...], calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
    if len(results) == len(calls) and not any(result.call_id for result in results):
        return tuple(replace(result, call_id=call.call_id) for result, call in zip(results, calls, strict=True))
    ids = {call.call_id for call in calls}
    return tuple(result for result in results if result.call_id in ids)
