"""Answers: what came back to a turn from the tools that the model asked for.

It is known from two sides. The next request of the conversation shows the model a text; an agent that records its
steps tells the object which the tool returned. Agents shorten what they show, so both are kept. A text agent has no
tool calls: what it was shown stands in the next message, whoever's that is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, ToolResult
from trace_recorder.values.trajectory import AgentStep, Trajectory
from trace_recorder.views.content.openai_functions import result_text
from trace_recorder.views.content.parts import parts_of, text_of
from trace_recorder.views.conversations.call_chains import Turn, agent_of, turns_of
from trace_recorder.views.conversations.chained_call import choice_of

Sign = tuple[Payload, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A turn with what came back to it.

    `step` is the agent's step that it belongs to. `shown` is what the next request says after the model's words: tool
    messages, the user's, or none where there was no next one. `results` are those that the agent recorded itself.
    """

    turn: Turn
    step: AgentStep | None = None
    shown: tuple[Message, ...] = ()
    results: tuple[ToolResult, ...] = ()
    choice: int = 0

    @property
    def interaction(self) -> LLMInteraction:
        """The call to the model."""
        return self.turn.interaction

    @property
    def response(self) -> LLMResponse:
        """What the model said; of several answers the one with which the conversation went on."""
        response = self.turn.interaction.response
        said = choice_of(response, self.choice)
        return replace(
            response,
            content=said.content,
            reasoning=said.reasoning,
            tool_calls=said.tool_calls,
            finish_reason=said.finish_reason,
            interleaved=said.interleaved,
        )

    def shown_by_tools(self) -> list[Message]:
        """The messages in which the model was shown what tools returned; made of the results where there are none."""
        asked = {call.call_id for call in self.response.tool_calls}
        shown = [message for message in self.shown if message.role == "tool" and (message.call_id or "") in asked]
        seen = {message.call_id for message in shown}
        return shown + [message_of(result) for result in self.results if result.call_id not in seen]

    def result_of(self, call_id: str | None) -> ToolResult | None:
        """What the agent recorded as the result of a tool call."""
        return next((result for result in self.results if result.call_id == call_id), None)


def answered_turns(trajectory: Trajectory) -> list[AnsweredTurn]:
    """Give the turns of a run in the order of time, each with what came back to it."""
    turns = turns_of(trajectory)
    steps = _steps(trajectory.agent_steps, turns)
    following = {turn.before: turn for turn in reversed(turns) if turn.before is not None and not turn.exact}
    following |= {turn.before: turn for turn in reversed(turns) if turn.before is not None and turn.exact}
    found: list[AnsweredTurn] = []
    for turn in turns:
        after = following.get(turn)
        shown, choice = (after.shown, after.choice) if after else ((), 0)
        one = AnsweredTurn(turn, steps.get(turn), shown, choice=choice)
        found.append(replace(one, results=_results(one.step, one.response.tool_calls)))
    return found


def message_of(result: ToolResult) -> Message:
    """Make a tool message of a result that the model was never shown."""
    extra: dict[str, Payload] = {"is_error": True} if result.success is False else {}
    return Message("tool", result_text(result), call_id=result.call_id, name=result.name, extra=extra)


def text_of_message(message: Message) -> str:
    """Write what a tool's message says as text: its texts, or, where it has other parts, all of it as JSON."""
    if isinstance(message.content, list) and len([*parts_of(message)]) != len(text_parts(message)):
        return json.dumps(message.content, ensure_ascii=False)
    return "\n".join(text_parts(message))


def text_parts(message: Message) -> list[str]:
    """Give the texts of a message, part by part."""
    return [text_of(replace(message, content=[part], extra={})) for part in _listed(message) if _is_text(part)]


def _listed(message: Message) -> list[Payload]:
    if message.content is None:
        return []
    return message.content if isinstance(message.content, list) else [message.content]


def _is_text(part: Payload) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str))


# ── what the agent recorded ──────────────────────────────────────────────────────────────────────────────────────────


def _results(step: AgentStep | None, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
    """The results that an agent recorded for these calls; without ids they are in the order of the calls."""
    if step is None:
        return ()
    results = tuple(one for one in step.tool_results if not step.derived or one.duration_seconds is not None)
    if not calls:
        return results
    asked = {call.call_id for call in calls}
    if len(results) == len(calls) and not any(result.call_id for result in results):
        return tuple(replace(result, call_id=call.call_id) for result, call in zip(results, calls, strict=True))
    return tuple(result for result in results if result.call_id in asked)


def _steps(steps: Sequence[AgentStep], turns: Sequence[Turn]) -> dict[Turn, AgentStep]:
    """Find the step that each turn belongs to: by its own word, else by what both of them say."""
    signed: dict[Sign, list[Turn]] = {}
    for turn in turns:
        for sign in _signs_of_call(turn.interaction):
            signed.setdefault(sign, []).append(turn)
    found: dict[Turn, AgentStep] = {}
    for step in steps:
        for sign in _signs_of_step(step):
            candidates = [turn for turn in signed.get(sign, ()) if turn not in found]
            if candidates:
                found |= dict.fromkeys(candidates if sign[0] == "number" else candidates[:1], step)
                break
    return found


def _signs_of_call(one: LLMInteraction) -> Iterator[Sign]:
    yield "interaction", one.interaction_id
    if one.step_number is not None:
        yield "number", agent_of(one), one.step_number
        return
    yield from _signs_of_response(one.response, one.response.tool_calls)


def _signs_of_step(step: AgentStep) -> Iterator[Sign]:
    if step.interaction is not None:
        yield "interaction", step.interaction.interaction_id
    if not step.derived:  # the number is not the agent's, which may have given the same
        yield "number", agent_of(step), step.step_number
    yield from _signs_of_response(step.llm_response or LLMResponse(), step.tool_calls)


def _signs_of_response(response: LLMResponse, calls: Sequence[ToolCall]) -> Iterator[Sign]:
    """What tells a response: its id, the ids of its calls, its words; the surest first."""
    if response.id:
        yield "response", response.id
    if calls:
        yield "calls", *(call.call_id for call in calls)
    if response.content:
        yield "said", response.content
