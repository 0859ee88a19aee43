"""Responses that a provider makes in the background, and the polls for them.

This module remembers which responses are not final, for all runs of this process. A program polls: it fetches such a
response later, with further requests. A poll may come from another client, thread or recorder than the call, but it
belongs to the call's run. No lock is taken: each change is one operation of a dict.

The final response is written as a further `llm_response` of the call that it answers. A poll that fails, or gets a
response that is not final, is not written: the next poll gets the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, NamedTuple, NoReturn, Protocol
from weakref import ref

from trace_recorder.capture import attempts
from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.received_response import ReceivedResponse
from trace_recorder.capture.seam import Target, is_recorded_outside
from trace_recorder.dialects.dialect import NOT_FINAL, background_id, has_whole_response, is_final, join_stream
from trace_recorder.dialects.endpoints import Endpoint, Poll
from trace_recorder.facts import JsonText, LLMResponseFact
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import WeakRegistry, ours
from trace_recorder.storage.journal_lines import body_member
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.stream_chunks import joined_bytes
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import Struct

MAX_REMEMBERED_RESPONSES = 1000
"""`remember` keeps at most this many responses. If there are more, `remember` forgets the oldest."""


class _CallKey(NamedTuple):
    """The key of a call in `_calls`.

    The id alone is not unique: several runs may record a call, and a server may repeat an id.
    """

    api: str
    response_id: str
    trajectory_id: str
    interaction_id: str


class BackgroundCall(Struct, frozen=True):
    """A response that is not final: how it is polled, and the call that it answers.

    `began` is the time at which the call's request was sent, on the clock `monotonic_seconds`.
    """

    api: str
    response_id: str
    run: ref[Run]
    interaction_id: str
    attempt: int
    began: float

    @property
    def key(self) -> _CallKey:
        """The key in `_calls`."""
        run = self.run()
        trajectory_id = "" if run is None else run.trajectory_id
        return _CallKey(self.api, self.response_id, trajectory_id, self.interaction_id)


class Streaming(Protocol):
    """A call whose stream has not ended, or is being assembled."""

    @property
    def run(self) -> Run:
        """The run that records the call."""

    def polled_early(self, poll: Poll) -> BackgroundCall | None:
        """Return the call if its stream began the polled response, or else None."""


_calls: dict[_CallKey, BackgroundCall] = {}
streams: WeakRegistry[Streaming] = WeakRegistry()
"""Calls with an open stream. Their responses are not remembered yet."""


def remember(call: BackgroundCall) -> None:
    """Remember a response that is not final."""
    _calls[call.key] = call
    for oldest in list(_calls)[: max(0, len(_calls) - MAX_REMEMBERED_RESPONSES)]:
        _calls.pop(oldest, None)


def response_id(text: str) -> str | None:
    """Return the id of a response, or None if the response is final. `text` is its body as JSON text."""
    if not any(f'"{status}"' in text for status in NOT_FINAL):
        return None
    try:
        return background_id(json.loads(text))
    except ours(ValueError, RecursionError):
        return None


def find_polled_call(poll: Poll, preferred: Callable[[], Run | None]) -> tuple[Run, BackgroundCall] | None:
    """Return the newest call whose response is polled, and the run of the call.

    Return None if no open run has such a call.

    If several runs have such a call, the call of the run that `preferred` returns is taken.
    """
    polled = poll.api, poll.response_id
    calls = [call for call in list(_calls.values()) if (call.api, call.response_id) == polled]
    in_open_runs = [(run, call) for call in calls if (run := call.run()) is not None and not run.closed]
    if len(in_open_runs) > 1 and (own := preferred()) is not None:
        in_open_runs = [pair for pair in in_open_runs if pair[0] is own] or in_open_runs
    if in_open_runs:
        return in_open_runs[-1]
    for streaming in streams:
        if not streaming.run.closed and (call := streaming.polled_early(poll)) is not None:
            return streaming.run, call
    return None


def take(call: BackgroundCall) -> bool:
    """Forget a response that is final now. Return False if an earlier poll got the final response."""
    return _calls.pop(call.key, None) is call


def poll_records(poll: Poll, target: Target, request: Any) -> PollRecords | None:
    """Return the records of a poll, or None if no run has the polled response, or a seam around this one records it."""
    found = find_polled_call(poll, target.open_run)
    if found is None:
        return None
    run, call = found
    if is_recorded_outside(run, request):
        return None
    endpoint = Endpoint(call.api, "", None, streams=False)
    return PollRecords(run, SentRequest(endpoint, request.method, str(request.url), request.headers.raw, b""), call)


class PollRecords:
    """Writes the answer to one poll, if it is final, as a response of the call's own attempt."""

    passing = None
    awaits_body = False

    def __init__(self, run: Run, sent: SentRequest, call: BackgroundCall) -> None:
        self.run = run
        self.sent = sent
        self._call = call
        self._members: dict[str, Payload] = {"interaction_id": call.interaction_id, "attempt": call.attempt}
        self.response = ReceivedResponse(run, self._members, call.began, in_parts=False)

    def take_body(self, context: Context) -> None:
        """Do nothing. The request of a poll is not on file."""

    def write_request(self, context: Mapping[str, Payload]) -> None:
        """Write nothing. The request of a poll is not on file."""

    def note_answer(self, status: int, raw: Sequence[tuple[bytes, bytes]]) -> None:
        """Do nothing. The next poll is not another attempt of the call."""

    def write_error(self, error: BaseException) -> None:
        """Write nothing. The next poll may succeed."""

    def note_origin(self, origin: ReplayedFrom) -> None:
        """Add `replayed_from` to the record of the response: the recorded call that gave a replay its answer."""
        self._members["replayed_from"] = origin.to_document()

    def write_response(self, ended_at: float, why: str | None, error: BaseException | None) -> None:
        """Write the response if it is final, and if no other poll has written it."""
        response = self.response
        if response.missing is not None or response.status >= 300 or self.run.closed:
            return
        if not response.is_stream and (why is not None or error is not None):
            return  # a stream may have delivered its last event before it failed
        data = joined_bytes(response.buffer)
        body = self._body(data)
        if not is_final(body) or not take(self._call):
            return
        self.run.learn(*headers.secrets(self.sent.headers, self.sent.url))
        if response.is_stream:
            answer: dict[str, Payload] = {"assembled": JsonText(to_json(body))}
        else:
            answer = body_member(data, self.run.redaction.mask_bytes)
        fact = LLMResponseFact(
            **self._members,
            status=response.status,
            duration_seconds=round(ended_at - self._call.began, 6),
            complete=True,
            polled=True,
            headers=response.headers,
            **answer,
        )
        try:
            self.run.append(fact)
        except BaseException:
            remember(self._call)  # so that the next poll can be written
            raise
        attempts.forget_failure(self._call.interaction_id)

    def write_bare_response(self, failure: Exception) -> NoReturn:
        """Write nothing. Raise the failure."""
        raise failure

    def _body(self, data: bytes) -> Payload:
        """Return the response, or None if it is not valid JSON or the stream is incomplete."""
        if self.response.is_stream:
            if not has_whole_response(self._call.api, self.sent.url):
                return None
            joined = join_stream(self._call.api, data)
            return joined.body if joined is not None and joined.ended else None
        try:
            return json.loads(data.decode())
        except ours(ValueError):
            return None
