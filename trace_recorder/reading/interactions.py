"""Makes an `LLMInteraction` from the facts of one call, and finds calls that were recorded twice.

A missing record does not raise an exception: an unknown value is None. The error of a call may come from the record of
a failed exchange, from the body of an HTTP error, or from an error event in the stream.

An agent may record by hand a call that was captured too. Then the trajectory has only the captured call. The id of the
response shows that both recordings are of the same call, in whichever order they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects.dialect import read_error, why_incomplete
from trace_recorder.facts import (
    ABSENT,
    LLMErrorFact,
    LLMInteractionFact,
    LLMRequestFact,
    LLMResponseFact,
    LLMStreamFact,
)
from trace_recorder.reading.call_facts import CallFacts
from trace_recorder.reading.exchange_facts import FAILURES, Ending, ExchangeFacts, Request
from trace_recorder.reading.record_bodies import read_body
from trace_recorder.values.checked_types import MAX_SECONDS
from trace_recorder.values.llm_interaction import Attempt, ErrorInfo, LLMInteraction, call_seconds, stated_error
from trace_recorder.values.messages import LLMResponse, Payload
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.trajectory import Gap

_REDIRECTS = 300
"""The first HTTP status of redirects."""
_SWITCHED = 101
"""The status of the handshake of a websocket. It says nothing of an error that comes over the websocket."""


def interaction_of(call: CallFacts) -> LLMInteraction:
    """Make an `LLMInteraction` from its facts. Some of them may be missing."""
    if call.newest.by_hand is not None:
        return _interaction_by_hand(call, call.newest.by_hand)
    newest, response = call.newest, call.newest.response
    attempts = [*map(_attempt, call.exchanges)]
    error = attempts[-1].error if attempts else _error_of(newest)
    if newest.parts:
        error = _stream_error(newest) or error
    seconds = attempts[0].duration_seconds if len(attempts) == 1 else _duration(attempts, newest.ending)
    first_token, first_token_seconds = newest.newest, None
    if newest.was_polled:
        first_token = next(reversed(newest.parts), None)
    if isinstance(first_token, LLMResponseFact | LLMStreamFact) and first_token.time_to_first_token_seconds is not None:
        first_token_seconds = _seconds(first_token.time_to_first_token_seconds)
    replayed_from = None
    if newest.newest is not None and newest.newest.replayed_from is not None:
        replayed_from = ReplayedFrom.of_document(newest.newest.replayed_from)
    model = _model_of(call.sent)
    if model is None and call.incremental is not None:  # the session of a websocket has it, or the response repeats it
        model = call.incremental.offer.model
    stream, ended_by = newest.asks_for_stream, None
    if response is not None:
        if response.stream is not None:
            stream = response.stream
        ended_by = response.ended_by
        if response.complete and response.stream and response.last_event is None:
            ended_by = _why_incomplete(newest, response)
    return LLMInteraction(
        interaction_id=call.interaction_id,
        timestamp=call.time,
        model=model,
        source=call,
        response=call.response or call.read_response(),
        error=error,
        attempts=tuple(attempts),
        duration_seconds=seconds,
        time_to_first_token_seconds=first_token_seconds,
        stream=stream,
        complete=response is not None and response.complete and ended_by is None,
        ended_by=ended_by,
        replayed_from=replayed_from,
        **_stated(call.sent),
    )


def _interaction_by_hand(call: CallFacts, fact: LLMInteractionFact) -> LLMInteraction:
    """Make an `LLMInteraction` that the agent recorded by hand, or that another tool's file states as one value."""
    stream = fact.stream
    if stream is None:
        stream = call.newest.asks_for_stream
    return LLMInteraction(
        interaction_id=call.interaction_id,
        timestamp=call.time,
        model=_model_of(fact),
        source=call,
        response=call.read_response(),
        error=stated_error(fact.error),
        duration_seconds=_seconds(fact.duration_seconds),
        time_to_first_token_seconds=_seconds(fact.time_to_first_token_seconds),
        stream=stream,
        complete=fact.complete is not False and fact.ended_by is None,
        ended_by=fact.ended_by,
        replayed_from=ReplayedFrom.of_document(fact.replayed_from),
        **_stated(fact),
    )


def _stated(sent: Request | None) -> dict[str, Payload]:
    """Return the fields of an interaction that its request states."""
    if sent is None:
        return {"provider": None}
    fields: dict[str, Payload] = {
        "provider": sent.provider,
        "api": sent.api,
        "step_number": sent.step_number,
        "agent": sent.agent,
        "agent_id": sent.agent_id,
        "parent_agent_id": sent.parent_agent_id,
        "parent_execution_id": sent.parent_execution_id,
    }
    if isinstance(sent, LLMRequestFact):
        fields["provider"], fields["api"] = sent.provider or None, sent.api or None
        fields["run_inferred"] = sent.run_inferred is True
    return fields


def _model_of(sent: Request | None) -> str | None:
    if sent is None:
        return None
    body = sent.body
    if body is ABSENT:
        body = read_body(sent)
    model = sent.model
    if isinstance(body, dict):
        model = body.get("model") or model
    if not isinstance(model, str):
        return None
    return model


def _why_incomplete(exchange: ExchangeFacts, response: LLMResponseFact) -> str | None:
    """Return why a stream is not complete, whose record does not state whether its last event came.

    Examine the stream itself. Return None if it is complete.
    """
    joined = exchange.joined
    if response.status >= _REDIRECTS or joined is None or joined.events != response.events:
        return response.ended_by
    return why_incomplete(joined)


def _stream_error(exchange: ExchangeFacts) -> ErrorInfo | None:
    """Return the error in the stream of an exchange, or None."""
    if exchange.was_polled:
        return None
    carried = exchange.stream_error()
    if carried is None:
        return None
    kind, message = read_error({"error": carried})
    status = None
    if exchange.response is not None and exchange.response.status != _SWITCHED:
        status = exchange.response.status or None
    return ErrorInfo(kind or "stream_error", message or "the stream carried an error", status)


def _error_of(exchange: ExchangeFacts) -> ErrorInfo | None:
    """Return the error of an exchange: that of a failed exchange, or of its response, or None."""
    ending = exchange.ending
    if isinstance(ending, LLMErrorFact):
        return ErrorInfo(ending.type or "error", ending.message)
    if ending is None:
        return None
    if ending.error is not None:
        return stated_error(ending.error)
    body = ending.body
    if body is ABSENT:
        body = read_body(ending)
    if ending.status < FAILURES and not (isinstance(body, dict) and body.get("error")):
        return None
    kind, message = read_error(body)
    return ErrorInfo(kind or "http_error", message or f"HTTP status {ending.status}", ending.status or None)


def _attempt(exchange: ExchangeFacts) -> Attempt:
    """Return one HTTP exchange of an interaction."""
    newest, request, seconds = exchange.newest, exchange.request, None
    if isinstance(newest, LLMResponseFact | LLMErrorFact):
        seconds = _seconds(newest.duration_seconds)
    status, headers = None, {}
    if isinstance(newest, LLMResponseFact | LLMStreamFact):
        status, headers = newest.status or None, newest.headers
    return Attempt(
        number=exchange.number,
        timestamp=exchange.time,
        status=status,
        error=_error_of(exchange),
        duration_seconds=seconds,
        headers=headers,
        inferred=isinstance(request, LLMRequestFact) and request.inferred is True,
    )


def _duration(attempts: Sequence[Attempt], ending: Ending | None) -> float | None:
    """Return how many seconds a call took with all its attempts, or None if the duration is not known."""
    recorded = None
    if ending is not None:
        recorded = _seconds(ending.duration_seconds)
    return _seconds(call_seconds(attempts, recorded))


def _seconds(value: float | None) -> float | None:
    """Return a duration that a record states. Return None if the duration is not below `MAX_SECONDS`."""
    if value is None or abs(value) < MAX_SECONDS:
        return value
    return None


def unreadable_gaps(interactions: Iterable[LLMInteraction]) -> list[Gap]:
    """Return a gap for each request that cannot be put together and each stream that cannot be unpacked."""
    gaps = []
    for interaction in interactions:
        if not interaction.source.has_request():
            why = "a record that it needs is damaged or missing"
            gaps.append(Gap(interaction.timestamp, f"the request of {interaction.interaction_id}", why))
        if isinstance(interaction.source, CallFacts) and interaction.source.newest.is_damaged:
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

    def has(self, response_id: str | None) -> bool:
        """Return whether the response with this id, of an interaction by hand, was captured too."""
        return response_id in self._captured

    def add(self, call: CallFacts, response: LLMResponse) -> Mapping[str, None]:
        """Add the response of an interaction.

        If it was captured, return the ids of the interactions by hand that have the same response.
        """
        if not response.id:
            return {}
        if call.sent is None or call.sent.api is None:
            self._manual.setdefault(response.id, {})[call.interaction_id] = None
            return {}
        self._captured[response.id] = None
        return self._manual.pop(response.id, {})
