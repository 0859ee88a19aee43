"""Makes an `LLMInteraction` from the records of one call, and finds calls that were recorded twice.

A missing record does not raise an exception: an unknown value is None. The error of a call may come from the record of
a failed exchange, from the body of an HTTP error, or from an error event in the stream.

An agent may record by hand a call that was captured too. Then the trajectory has only the captured call. The id of the
response shows that both recordings are of the same call, in whichever order they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.derive.call_records import CallRecords
from trace_recorder.derive.record_bodies import read_body
from trace_recorder.dialects.dialect import join_stream, read_error, why_incomplete
from trace_recorder.storage.journal_reader import Record
from trace_recorder.values.checked_types import MAX_SECONDS, text_of_member, texts_of_members
from trace_recorder.values.llm_interaction import Attempt, ErrorInfo, LLMInteraction, call_seconds
from trace_recorder.values.messages import JoinedStream, Payload
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.trajectory import Gap


def interaction_of(call: CallRecords) -> LLMInteraction:
    """Make an `LLMInteraction` from its records. Some of them may be missing."""
    request_data, ending = call.request_data, call.ending
    end: Mapping[str, Payload] = ending.data if ending else {}
    if call.is_manual:
        end = request_data
    first_token: Payload = (call.last_part if not end or "polled" in end else end).get("time_to_first_token_seconds")
    origin: Payload = (end or call.last_part).get("replayed_from")
    body = request_members(request_data)
    model = body.get("model") or request_data.get("model")
    ending_error = None
    if ending is not None and not call.is_manual:
        ending_error = _ending_error(ending)
    stream_error = _stream_error(call, end) if call.streams and "polled" not in end else None
    complete, ended_by = _completeness(call, end)
    attempts = () if call.is_manual else _attempts(call, ending_error)
    return LLMInteraction(
        interaction_id=call.interaction_id,
        timestamp=call.first.time,
        model=model if isinstance(model, str) else None,
        source=call,
        step_number=request_data.get("step_number"),
        response=call.read_response(),
        error=stated_error(request_data.get("error")) if call.is_manual else stream_error or ending_error,
        attempts=attempts,
        duration_seconds=_duration(attempts, end) if len(attempts) != 1 else attempts[0].duration_seconds,
        time_to_first_token_seconds=None if first_token is None else _seconds(first_token),
        stream=bool(end["stream"] if "stream" in end else asks_for_stream(request_data, body)),
        complete=complete,
        ended_by=ended_by,
        replayed_from=None if origin is None else ReplayedFrom.of_document(origin),
        run_inferred=request_data.get("run_inferred") is True,
        **texts_of_members(request_data, _TEXTS),
    )


_TEXTS = ("provider", "api", "agent", "agent_id", "parent_agent_id", "parent_execution_id")
"""The texts in a request's record that become fields of the interaction."""


def _completeness(call: CallRecords, end: Mapping[str, Payload]) -> tuple[bool, str | None]:
    """Return whether the response is complete, and the reason if it is not. The reason is None if it is unknown.

    Older journals do not state whether the last event of a stream came. Then examine the stream itself.
    """
    answered = call.is_manual or (call.ending is not None and call.ending.kind == "llm_response")
    complete = answered and end.get("complete", True) is True
    ended_by = text_of_member(end["ended_by"]) if "ended_by" in end else None
    if complete and end.get("stream") is True and "last_event" not in end and call.status < 300:
        joined = _undamaged_stream(call, end)
        ended_by = ended_by if joined is None else why_incomplete(joined)
    return complete and ended_by is None, ended_by


def _undamaged_stream(call: CallRecords, end: Mapping[str, Payload]) -> JoinedStream | None:
    """Assemble the stream of a call. Return None if a part of the stream is missing or damaged."""
    data = call.stream_bytes()
    joined = None if data is None else join_stream(call.dialect, data)
    return joined if joined is not None and joined.events == end.get("events") else None


def asks_for_stream(request_data: Mapping[str, Payload], body: Payload) -> bool:
    """Return whether a request asks for a stream, according to the data of its record or to its body.

    `body` may lack the members that are stored as items.
    """
    return request_data.get("stream") is True or (isinstance(body, dict) and body.get("stream") is True)


def request_members(request_data: Mapping[str, Payload]) -> Mapping[str, Payload]:
    """Return the members of a request's body, without those that are stored as items."""
    body = request_data["body"] if "body" in request_data else read_body(request_data)
    return body if isinstance(body, dict) else {}


def _stream_error(call: CallRecords, end: Mapping[str, Payload]) -> ErrorInfo | None:
    """Return the error in the stream of a call, or None."""
    carried = call.stream_error()
    if carried is None:
        return None
    kind, message = read_error({"error": carried})
    status = end.get("status")
    status = status if type(status) is int else None
    return ErrorInfo(kind or "stream_error", message or "the stream carried an error", status)


def _ending_error(ending: Record) -> ErrorInfo | None:
    data = ending.data
    if ending.kind == "llm_error" or "error" in data:
        return stated_error(data.get("error", data))
    body = data["body"] if "body" in data else read_body(data)
    status = data.get("status")
    status = status if isinstance(status, int) else 0
    if status < 400 and not (isinstance(body, dict) and body.get("error")):
        return None
    kind, message = read_error(body)
    return ErrorInfo(kind or "http_error", message or f"HTTP status {status}", status)


def stated_error(error: Payload) -> ErrorInfo | None:
    """Make an `ErrorInfo` from the error in a record. Return None if `error` is not an object."""
    if not isinstance(error, dict):
        return None
    status = error.get("status")
    kind, message = str(error.get("type") or "error"), str(error.get("message") or "")
    return ErrorInfo(kind, message, status if type(status) is int else None)


def _attempts(call: CallRecords, ending_error: ErrorInfo | None) -> tuple[Attempt, ...]:
    """Return all HTTP exchanges of an interaction, in order. `ending_error` is the error of the newest exchange."""
    parts = {part.data.get("attempt", 0): part.data for part in call.streams} if call.streams else {}
    attempts = []
    for request in call.requests:
        request_data = request.data
        number = request_data.get("attempt", 0)
        ending, error = call.endings.get(number), ending_error
        if ending is not call.ending:
            error = None if ending is None else _ending_error(ending)
        data = ending.data if ending else parts.get(number, {})
        status, headers = data.get("status"), data.get("headers")
        seconds: Payload = data.get("duration_seconds")
        attempts.append(
            Attempt(
                number=number,
                timestamp=request.time,
                status=status if type(status) is int else None,
                error=error,
                duration_seconds=seconds
                if type(seconds) is float and abs(seconds) < MAX_SECONDS
                else _seconds(seconds),
                headers=headers if isinstance(headers, dict) else {},
                inferred="inferred" in request_data and request_data["inferred"] is True,
            )
        )
    return tuple(attempts)


def _duration(attempts: Sequence[Attempt], end: Mapping[str, Payload]) -> float | None:
    """Return how many seconds a call took with all its attempts, or None if the duration is not known."""
    return _seconds(call_seconds(attempts, _seconds(end.get("duration_seconds"))))


def _seconds(value: Payload) -> float | None:
    """Return a duration that a record states. Return None if the value is not a number below `MAX_SECONDS`."""
    return value if type(value) in _NUMBERS and abs(value) < MAX_SECONDS else None


def unreadable_gaps(interactions: Iterable[LLMInteraction]) -> list[Gap]:
    """Return a gap for each request that cannot be put together and each stream that cannot be unpacked."""
    gaps = []
    for interaction in interactions:
        if not interaction.source.has_request():
            why = "a record that it needs is damaged or missing"
            gaps.append(Gap(interaction.timestamp, f"the request of {interaction.interaction_id}", why))
        if isinstance(interaction.source, CallRecords) and interaction.source.is_damaged:
            gaps.append(
                Gap(interaction.timestamp, f"the stream of {interaction.interaction_id}", "it cannot be unpacked")
            )
    return gaps


@dataclass(slots=True)
class Duplicates:
    """Finds interactions that were recorded by hand, and whose responses were captured too.

    Call `add` in the order of the records.

    - `_captured`: the response ids of captured interactions
    - `_manual`: the response ids of interactions recorded by hand, each with the ids of these interactions
    """

    _captured: dict[str, None] = field(default_factory=dict)
    _manual: dict[str, dict[str, None]] = field(default_factory=dict)

    def has(self, call: LLMInteraction) -> bool:
        """Return whether the response of an interaction that was recorded by hand was captured too."""
        return call.response.id in self._captured

    def add(self, call: LLMInteraction) -> Mapping[str, None]:
        """Add an interaction.

        If it was captured, return the ids of the interactions by hand that have the same response.
        """
        identity = call.response.id or ""
        if call.api is None:
            self._manual.setdefault(identity, {})[call.interaction_id] = None
            return {}
        self._captured[identity] = None
        return self._manual.pop(identity, {})


_NUMBERS = (int, float)
"""The types of a number in JSON, without bool."""
