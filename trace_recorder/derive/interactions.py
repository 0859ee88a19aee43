"""An `LLMInteraction` from the records of one call (`call_records.py`).

Nothing here raises for a record that is missing: what is unknown is None. Errors come from three places: the record
of a failed exchange, the body of an HTTP error, and an error event in the stream.
"""

from __future__ import annotations

from collections.abc import Mapping

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.record_bodies import read_body
from trace_recorder.dialects.error_body import read_error
from trace_recorder.dialects.readers import join_stream, why_incomplete
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.llm_interaction import Attempt, ErrorInfo, LLMInteraction
from trace_recorder.values.messages import JoinedStream, Payload


def interaction_of(call: CallRecords) -> LLMInteraction:
    """Make the value of an interaction from the records that are there."""
    request_data, ending = call.request_data, call.ending
    end: Mapping[str, Payload] = request_data if call.is_manual else ending.data if ending else {}
    first_token = (end or call.last_part).get("time_to_first_token_seconds")
    duration = end.get("duration_seconds")
    asked = asked_of(request_data)
    model = asked.get("model") or request_data.get("model")
    ending_error = None
    if ending is not None and not call.is_manual:
        ending_error = _ending_error(ending, call.body_in_parts if call.streams else {})
    complete, ended_by = _how_it_ended(call, end)
    return LLMInteraction(
        interaction_id=call.interaction_id,
        timestamp=call.first.time,
        provider=request_data.get("provider"),
        model=model if isinstance(model, str) else None,
        source=call,
        api=request_data.get("api"),
        step_number=request_data.get("step_number"),
        agent=request_data.get("agent"),
        agent_id=request_data.get("agent_id"),
        parent_agent_id=request_data.get("parent_agent_id"),
        response=call.read_response(),
        error=stated_error(request_data.get("error")) if call.is_manual else _stream_error(call, end) or ending_error,
        attempts=() if call.is_manual else _attempts(call, ending_error),
        duration_seconds=duration if type(duration) in _NUMBERS else None,
        time_to_first_token_seconds=first_token if type(first_token) in _NUMBERS else None,
        stream=bool(end["stream"] if "stream" in end else asks_for_stream(request_data, asked)),
        complete=complete,
        ended_by=ended_by,
        parent_execution_id=request_data.get("parent_execution_id"),
    )


def _how_it_ended(call: CallRecords, end: Mapping[str, Payload]) -> tuple[bool, str | None]:
    """Whether an answer is complete, and if not, why, if that is known.

    Older journals do not say whether the last event of a stream came. Then the stream itself is examined.
    """
    answered = call.is_manual or (call.ending is not None and call.ending.kind == "llm_response")
    complete, ended_by = answered and end.get("complete", True) is True, end.get("ended_by")
    if complete and end.get("stream") is True and "last_event" not in end and call.status < 300:
        joined = _undamaged_stream(call, end)
        ended_by = ended_by if joined is None else why_incomplete(joined)
    return complete and ended_by is None, ended_by


def _undamaged_stream(call: CallRecords, end: Mapping[str, Payload]) -> JoinedStream | None:
    """Join the stream of a call; None if a part of it is missing or damaged."""
    data = call.stream_bytes()
    joined = None if data is None else join_stream(call.request_data.get("api"), data)
    return joined if joined is not None and joined.events == end.get("events") else None


def asks_for_stream(request_data: Mapping[str, Payload], asked: Mapping[str, Payload]) -> bool:
    """Whether a request's data, or the members of its body, ask for a stream."""
    return request_data.get("stream") is True or asked.get("stream") is True


def asked_of(request_data: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """The members of a request's body, without those that are items."""
    body = request_data["body"] if "body" in request_data else read_body(request_data)
    return body if isinstance(body, dict) else {}


def _stream_error(call: CallRecords, end: Mapping[str, Payload]) -> ErrorInfo | None:
    """The error that the stream of a call carried, if it is one."""
    carried = call.stream_error() if call.streams else None
    if carried is None:
        return None
    kind, message = read_error({"error": carried})
    return ErrorInfo(kind or "stream_error", message or "the stream carried an error", end.get("status"))


def _ending_error(ending: Record, in_parts: Mapping[str, Payload]) -> ErrorInfo | None:
    if ending.kind == "llm_error" or "error" in ending.data:
        return stated_error(ending.data.get("error", ending.data))
    data = {**ending.data, **in_parts} if in_parts else ending.data
    body = data["body"] if "body" in data else read_body(data)
    status = data.get("status")
    status = status if isinstance(status, int) else 0
    if status < 400 and not (isinstance(body, dict) and body.get("error")):
        return None
    kind, message = read_error(body)
    return ErrorInfo(kind or "http_error", message or f"HTTP status {status}", status)


def stated_error(error: Payload) -> ErrorInfo | None:
    """Return an error as a record states it; None if there is none."""
    if not isinstance(error, dict):
        return None
    status = error.get("status")
    kind, message = str(error.get("type") or "error"), str(error.get("message") or "")
    return ErrorInfo(kind, message, status if type(status) is int else None)


def _attempts(call: CallRecords, ending_error: ErrorInfo | None) -> tuple[Attempt, ...]:
    """Every HTTP exchange of an interaction, in order. `ending_error` is the error of the newest one."""
    parts = {part.data.get("attempt", 0): part.data for part in call.streams} if call.streams else {}
    attempts = []
    for request in call.requests:
        number = request.data.get("attempt", 0)
        ending, error = call.endings.get(number), ending_error
        if ending is not call.ending:
            error = _ending_error(ending, call.body_of_attempt(number) if call.streams else {}) if ending else None
        data = ending.data if ending else parts.get(number, {})
        duration = data.get("duration_seconds")
        attempts.append(
            Attempt(
                number=number,
                timestamp=request.time,
                status=data.get("status"),
                error=error,
                duration_seconds=duration if type(duration) in _NUMBERS else None,
                headers=data.get("headers") or {},
                inferred=request.data.get("inferred", False),
            )
        )
    return tuple(attempts)


_NUMBERS = (int, float)
"""The types of a number in JSON, without bool."""
