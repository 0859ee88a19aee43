"""The output of `show --raw`: the requests and responses of a step as they were sent, with masked secrets.

Only the journal has them. If a call has several attempts, those of the last attempt are printed.
"""

from __future__ import annotations

from collections.abc import Iterable

from trace_recorder.cli.read_files import UnreadableError
from trace_recorder.derive.call_records import CallRecords
from trace_recorder.values.llm_interaction import LLMInteraction
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.conversations.steps_and_calls import StepOrCall


def raw_calls(trajectory: Trajectory, parts: Iterable[StepOrCall]) -> list[Payload]:
    """Return the request and response of each call in these parts, in order.

    Raises UnreadableError if they are unknown.
    """
    wanted = {part.call.interaction_id for part in parts if part.call is not None}
    calls = [one for one in trajectory.llm_interactions if one.interaction_id in wanted]
    if not calls:
        raise UnreadableError("the step has no LLM call, so nothing was sent")
    return [_raw_call(one) for one in calls]


def _raw_call(call: LLMInteraction) -> Payload:
    source = call.source
    if not isinstance(source, CallRecords):
        raise UnreadableError(
            f"{call.interaction_id}: only a run's journal has the requests and responses as they were sent"
        )
    if source.is_manual:
        raise UnreadableError(
            f"{call.interaction_id} was recorded by hand: its request and response as sent are unknown"
        )
    stream = call.raw_stream
    response = {"response": call.raw_response} if stream is None else {"stream": stream}
    status = call.attempts[-1].status if call.attempts else None
    sent = {"url": source.request_data.get("url"), "request": call.raw_request}
    return {"interaction_id": call.interaction_id, **sent, "status": status, **response}
