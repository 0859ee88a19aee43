"""What `show --raw` prints: the requests and responses of a step as they went over the wire, secrets masked.

Only the journal has them. Of a call with several attempts, they are those of the last one.
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
    """Return what each call of these parts sent and received, in the order of the calls.

    Raises UnreadableError where that is not known.
    """
    wanted = {part.call.interaction_id for part in parts if part.call is not None}
    calls = [one for one in trajectory.llm_interactions if one.interaction_id in wanted]
    if not calls:
        raise UnreadableError("the step has no LLM call, so nothing went over the wire")
    return [_raw_call(one) for one in calls]


def _raw_call(call: LLMInteraction) -> Payload:
    source = call.source
    if not isinstance(source, CallRecords):
        raise UnreadableError(f"{call.interaction_id}: only a run's journal has what went over the wire")
    if source.is_manual:
        raise UnreadableError(f"{call.interaction_id} was recorded by hand: what went over the wire is not known")
    stream = call.raw_stream
    response = {"response": call.raw_response} if stream is None else {"stream": stream}
    status = call.attempts[-1].status if call.attempts else None
    sent = {"url": source.request_data.get("url"), "request": call.raw_request}
    return {"interaction_id": call.interaction_id, **sent, "status": status, **response}
