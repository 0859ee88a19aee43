"""Why a call is not complete, in words that the command line and the viewer share."""

from __future__ import annotations

from trace_recorder.values.llm_interaction import LLMInteraction


def incomplete_reason(call: LLMInteraction, *, is_running: bool) -> str | None:
    """Return why a call is not complete, or None if it is complete or its error says why.

    `is_running` is the state of its run.
    """
    if call.complete or (call.error and not call.ended_by):
        return None
    if call.ended_by:
        return f"it ended early: {call.ended_by}"
    if not call.answered:
        return "in flight, no answer yet" if is_running else "no answer is on file"
    return "in flight, the answer is still coming" if is_running else "the rest of the answer is not on file"
