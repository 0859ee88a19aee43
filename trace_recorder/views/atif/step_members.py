"""The members of ATIF's steps for a call, for tools, and for a result. What ATIF has no member for is in `extra`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trace_recorder.imports.atif.members import EXTRA_KEY, TOOL_STEP_FLAG, effort_of, kept_in
from trace_recorder.imports.foreign.formats import IMPORT_FORMATS
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Payload, ToolCall, ToolResult, without_none
from trace_recorder.values.token_counts import counts_of
from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.content.openai_functions import arguments_of, result_text
from trace_recorder.views.conversations.turn import Turn
from trace_recorder.views.replayed_calls import REPLAYED_FROM
from trace_recorder.views.tokens import tokens_of

_SAMPLED = frozenset({"token_ids", "logprobs", "logprobsResult"})


def recorded_after_answer(one: LLMInteraction) -> bool:
    """Whether the time of a call is that of its answer.

    This is so for calls recorded by hand and for those of other tools.
    """
    return one.api is None or one.api in IMPORT_FORMATS


def tools_step(step: AgentStep, timestamp: str | None, number: int = 0) -> dict[str, Payload]:
    """Make a step of tools that ran without a call to a model."""
    results = []
    for result in step.tool_results:
        content = result_text(result)
        extra = extra_of_result(result, content, derived=False)
        results.append({"source_call_id": result.call_id, "content": content} | without_none(extra=extra or None))
    return {
        "step_id": number,
        "timestamp": timestamp or step.timestamp,
        "source": "agent",
        "message": "",
        "tool_calls": [call_members(call) for call in step.tool_calls],
        **without_none(observation={"results": results} if results else None),
        "llm_call_count": 0,
        "extra": {TOOL_STEP_FLAG: True} | without_none(error=step.error),
    }


def extra_of_result(result: ToolResult, content: Payload, *, derived: bool) -> dict[str, Payload]:
    """Return the members of a result besides the `content` of its observation.

    For a derived result, the value is left out.
    """
    value = None if derived or result.result == content else result.result
    error = None if result.error == content else result.error
    return without_none(
        success=result.success,
        error=error,
        result=value,
        duration_seconds=result.duration_seconds,
    )


def call_members(call: ToolCall) -> dict[str, Payload]:
    """Return a tool call in ATIF's form."""
    extra = {**call.extra, **without_none(call_id_made_up=call.call_id_made_up or None)}
    members = {"tool_call_id": call.call_id, "function_name": call.name, "arguments": arguments_of(call)}
    return members | ({"extra": extra} if extra else {})


def model_members(turn: Turn) -> dict[str, Payload]:
    """Return which model answered, and the reasoning effort that was requested."""
    one, parameters = turn.interaction, turn.parameters
    response = one.response
    return without_none(model_name=response.model or one.model, reasoning_effort=effort_of(parameters))


def call_step_members(turn: Turn, told: Iterable[AgentStep], *, is_side_call: bool) -> dict[str, Payload]:
    """Return the metrics of a call, and in `extra` everything that ATIF has no member for.

    A call that was not made is copied context, and its mark has the metrics.
    """
    call = turn.interaction
    kept = kept_in(call.response.extra)
    metrics = metrics_of_call(call)
    if "metrics_extra" in kept:
        metrics["extra"] = {**metrics.get("extra", {}), **kept["metrics_extra"]}
    extra = _extra_of_call(turn) | without_none(
        agent_steps=[_agent_step(step) for step in told if not step.derived] or None,
        side_call=is_side_call or None,
    )
    extra |= kept.get("extra", {})
    if call.replayed_from is not None:
        origin = call.replayed_from.to_document() | without_none(metrics=metrics or None)
        return {"is_copied_context": True, "extra": extra | {REPLAYED_FROM: origin}}
    count = kept.get("llm_call_count", 1 if call.answered or call.api is not None else None)
    return without_none(metrics=metrics or None, llm_call_count=count) | {"extra": extra}


def metrics_of_call(call: LLMInteraction) -> dict[str, Payload]:
    """Return a call's tokens, its cost where the provider stated one, and its token ids and log-probabilities."""
    counts, tokens = counts_of(call), tokens_of(call)
    usage = call.response.usage
    return without_none(
        prompt_tokens=counts and counts.prompt,
        completion_tokens=counts and counts.completion,
        cached_tokens=counts and counts.cache_read,
        cost_usd=usage.cost,
        prompt_token_ids=tokens.prompt_ids,
        completion_token_ids=tokens.completion_ids,
        logprobs=tokens.logprobs,
        extra={"usage": stated} if (stated := usage.to_document()) else None,
    )


def _extra_of_call(turn: Turn) -> dict[str, Payload]:
    call = turn.interaction
    return without_none(
        interaction_id=call.interaction_id,
        requested_at=None if recorded_after_answer(call) else call.timestamp,
        step_number=call.step_number,
        provider=call.provider,
        api=call.api,
        model_asked_for=call.model,
        **_extra_of_response(call.response),
        parameters={name: value for name, value in turn.parameters.items() if name != "model"} or None,
        duration_seconds=call.duration_seconds,
        time_to_first_token_seconds=call.time_to_first_token_seconds,
        stream=call.stream or None,
        complete=None if call.complete else False,
        ended_by=call.ended_by,
        error=call.error.to_document() if call.error else None,
        attempts=[attempt.to_document() for attempt in call.attempts] if len(call.attempts) > 1 else None,
    )


def _extra_of_response(response: LLMResponse) -> dict[str, Payload]:
    others = [choice.to_document() for choice in response.choices[1:]]
    return {
        "response_id": response.id,
        "finish_reason": response.finish_reason,
        "other_choices": others or None,
        "choice_extra": _without_samples(response.choices[0]) if response.choices else None,
        "response_extra": _without_kept(response.extra),
    }


def _without_kept(extra: Mapping[str, Payload]) -> dict[str, Payload] | None:
    return {name: value for name, value in extra.items() if name != EXTRA_KEY} or None


def _without_samples(choice: Choice) -> dict[str, Payload] | None:
    """Return the other members of a choice, without token ids and log-probabilities, which are in the metrics."""
    return {name: value for name, value in choice.extra.items() if name not in _SAMPLED} or None


def _agent_step(step: AgentStep) -> dict[str, Payload]:
    """Return the members of a step that the agent recorded, without those that its call has."""
    return without_none(
        step_number=step.step_number,
        timestamp=step.timestamp,
        state=step.state,
        reflection=step.reflection,
        error=step.error,
        duration_seconds=step.duration_seconds,
        **step.extra,
    )
