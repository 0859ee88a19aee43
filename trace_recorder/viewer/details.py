"""The details of one interaction or one step: answers, attempts, tool calls with their arguments and results."""

from __future__ import annotations

from trace_recorder.values.llm_interaction import Attempt, LLMInteraction, pause_between
from trace_recorder.values.messages import Choice, LLMResponse, ToolCall, ToolResult, without_none
from trace_recorder.values.tool_uses import tool_uses
from trace_recorder.values.trajectory import AgentStep
from trace_recorder.viewer.parts import (
    Json,
    TextLimits,
    answer_parts,
    json_part,
    message_json,
    text_part,
    value_parts,
)


def interaction_detail(number: int, interaction: LLMInteraction, limits: TextLimits) -> Json:
    """Return the answer and the attempts of an interaction."""
    return {
        "number": number,
        "response": response_json(interaction.response, limits) if interaction.answered else None,
        "error": interaction.error and interaction.error.to_document(),
        "attempts": [
            _attempt(*pair) for pair in zip(interaction.attempts, [None, *interaction.attempts], strict=False)
        ],
    }


def _attempt(attempt: Attempt, before: Attempt | None) -> Json:
    unknown: Json = {"status": None, "error": None, "duration_seconds": None, "headers": {}, "inferred": False}
    return {**unknown, "pause_seconds": before and pause_between(before, attempt), **attempt.to_document()}


def response_json(response: LLMResponse, limits: TextLimits) -> Json:
    """Return the answer of a model. `given` is a response that was recorded by hand in a form of its own."""
    several = len(response.choices) > 1
    return without_none(given=json_part(response.given, limits) if response.given else None) | {
        "id": response.id,
        "model": response.model,
        "finish_reason": response.finish_reason,
        "parts": answer_parts(response, limits),
        "choices": [_choice(choice, limits) for choice in response.choices] if several else [],
        "usage": response.usage.to_document() or None,
        "extra": json_part(response.extra, limits) if response.extra else None,
    }


def _choice(choice: Choice, limits: TextLimits) -> Json:
    return {
        "index": choice.index,
        "finish_reason": choice.finish_reason,
        "parts": answer_parts(choice, limits),
        "extra": json_part(choice.extra, limits) if choice.extra else None,
    }


def step_detail(number: int, step: AgentStep, limits: TextLimits) -> Json:
    """Return a step with its tool calls and results, and with the messages and the answer that only the step has."""
    messages = None if step.messages is None else [message_json(None, message, limits) for message in step.messages]
    return {
        "number": number,
        "reflection": text_part("text", step.reflection, limits) if step.reflection else None,
        "error": text_part("text", step.error, limits) if step.error else None,
        "messages": messages,
        "response": _own_response(step, limits),
        "tool_calls": [
            _call(call, result, limits) for _, call, result in tool_uses(step.tool_calls, step.tool_results)
        ],
        "extra": json_part(step.extra, limits) if step.extra else None,
    }


def _own_response(step: AgentStep, limits: TextLimits) -> Json | None:
    """Return the answer that the agent recorded in a step, or None if the call of the step has the same answer."""
    response = step.llm_response
    if response is None or response.given == {} or (step.interaction and response == step.interaction.response):
        return None
    return response_json(response, limits)


def _call(call: ToolCall | None, result: ToolResult | None, limits: TextLimits) -> Json:
    source = call or result
    return {
        "call_id": source and source.call_id,
        "name": source and source.name,
        "arguments": call and json_part(call.arguments, limits),
        "result": result and result_json(result, limits),
    } | ({} if call else {"unrequested": True})


def result_json(result: ToolResult, limits: TextLimits) -> Json:
    """Return the result of a tool."""
    return {
        "success": result.success,
        "parts": value_parts(result.result, limits),
        "error": text_part("text", result.error, limits) if result.error is not None else None,
        "sent": value_parts(result.sent, limits) or None,
        "duration_seconds": result.duration_seconds,
        "execution_id": result.execution_id,
    }
