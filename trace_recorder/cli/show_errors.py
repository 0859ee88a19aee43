"""The steps that `show --errors` shows: whole steps in which something failed."""

from __future__ import annotations

from collections.abc import Sequence

from trace_recorder.values.llm_interaction import Attempt, LLMInteraction
from trace_recorder.values.trajectory import AgentStep
from trace_recorder.views.conversations.steps_and_calls import StepOrCall

_FIRST_HTTP_ERROR = 400


def parts_with_errors(parts: Sequence[StepOrCall]) -> list[StepOrCall]:
    """Return the steps that have an error or a failed call, attempt or tool, with their calls.

    Failed calls outside steps are included.
    """
    failed = [part for part in parts if _has_error(part)]
    numbers = {str(part.step_number) for part in failed if part.step_number is not None}
    alone = {id(part) for part in failed}
    return [part for part in parts if id(part) in alone or str(part.step_number) in numbers]


def _has_error(part: StepOrCall) -> bool:
    return (part.step is not None and _step_has_error(part.step)) or (
        part.call is not None and _call_has_error(part.call)
    )


def _step_has_error(step: AgentStep) -> bool:
    return bool(step.error) or any(one.success is False or one.error for one in step.tool_results)


def _call_has_error(call: LLMInteraction) -> bool:
    return call.error is not None or any(map(_attempt_has_error, call.attempts))


def _attempt_has_error(attempt: Attempt) -> bool:
    return attempt.error is not None or (attempt.status or 0) >= _FIRST_HTTP_ERROR
