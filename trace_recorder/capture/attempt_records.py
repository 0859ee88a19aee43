"""The records of one attempt of a call: its request, and the response or the error that ended it.

`Exchange` holds the response's lock while it calls `write_response`. `received_response.py` writes the parts of a
stream before this module writes the record of its end. A stream is assembled here, by the reader of its
dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Context
from weakref import ref

from trace_recorder.capture import attempts, background_responses
from trace_recorder.capture.attempts import AttemptId, SentRequest
from trace_recorder.capture.background_responses import BackgroundCall
from trace_recorder.capture.passing_bodies import PassingBody
from trace_recorder.capture.received_response import LARGE_REQUEST_BYTES, ReceivedResponse
from trace_recorder.clocks import monotonic_seconds
from trace_recorder.decompression import TooLargeError
from trace_recorder.dialects.dialect import (
    USAGE_ADVICE,
    answers_in_background,
    dialect_of,
    join_stream,
    may_omit_usage,
    why_incomplete,
)
from trace_recorder.dialects.endpoints import Poll
from trace_recorder.dialects.json_access import as_dict
from trace_recorder.facts import ABSENT, JsonText, LLMErrorFact, LLMRequestFact, LLMResponseFact
from trace_recorder.guard import ignore_failures, logger
from trace_recorder.recording.context import merge_facts
from trace_recorder.recording.run import MOST_CALL_NAMES, Run
from trace_recorder.storage.items.conversation_prefix import ListChanges
from trace_recorder.storage.journal_lines import body_member, text_member
from trace_recorder.storage.redaction import headers
from trace_recorder.storage.redaction.urls import clean_url
from trace_recorder.storage.stream_chunks import joined_bytes
from trace_recorder.values import structs
from trace_recorder.values.json_text import NotJsonError
from trace_recorder.values.jsonable import describe_error, to_json
from trace_recorder.values.messages import JoinedStream, Payload, without_none
from trace_recorder.values.origins import ReplayedFrom

REDIRECTS = (307, 308)
"""The status codes of redirects after which the client sends the same request to another address."""


class AttemptRecords:
    """Writes the records of one attempt of a call. The methods raise the exceptions of `Run`, so callers guard them."""

    _attempt: AttemptId
    _changes: ListChanges | None = None
    """What `takes_long` found out: how the request changes an earlier one."""

    def __init__(
        self, run: Run, sent: SentRequest, passing: PassingBody | None = None, attempt: AttemptId | None = None
    ) -> None:
        """Keep what is known of a request.

        `passing` is where the body passes if it is made while it is sent, or None if `sent` has the body. `attempt` is
        None if the body passes, or must be decoded. `take_body` then finds out which attempt it is.
        """
        self.run = run
        self.sent = sent
        self.passing = passing
        self.awaits_body = attempt is None
        """Whether the request is not on file yet, because its body passes or must be decoded."""
        self._began = monotonic_seconds()
        self._members: dict[str, Payload] = {}
        if attempt is not None:
            self._attempt = attempt
            self._members |= {"interaction_id": attempt.interaction_id, "attempt": attempt.number}
        self._in_background = answers_in_background(sent.endpoint.api)
        self._polled_id = ""
        """The id of the call's response, if the program polled it before the stream had ended."""
        self.response = ReceivedResponse(run, self._members, self._began)

    def take_body(self, context: Context) -> None:
        """Decode the body, which may have passed, and find out which attempt the request is.

        Called once, in any thread, if the attempt is not known. `context` is the context of the call, or a copy of it.
        """
        if "interaction_id" in self._members:
            return
        sent, why = self.sent, None
        if self.passing is not None:
            sent, why = structs.replace(sent, body=self.passing.join()), self.passing.missing()
        with self.run.guard.protect("decode the body of a request"):
            try:
                sent = sent.decoded()
            except TooLargeError as error:
                sent, why = structs.replace(sent, body=b"", undecoded=sent.body, is_encoded=False), str(error)
        self.sent = sent
        self._attempt = context.run(attempts.identify, self.run, sent)
        self._members |= {"interaction_id": self._attempt.interaction_id, "attempt": self._attempt.number}
        if why is not None:
            self.run.guard.queue_failure("record the body of a request", why)

    def takes_long(self) -> bool:
        """Whether a thread must write the request, because decoding or writing it would delay an event loop.

        A strict run never uses a thread, because such a run must raise at once.
        """
        if self.run.guard.strict:
            return False
        body = self.sent.body
        if self.awaits_body or len(body) <= LARGE_REQUEST_BYTES:
            return self.awaits_body
        self._changes = self.run.changes_of(body)
        return self._changes is None or self._changes.new_bytes() > LARGE_REQUEST_BYTES

    def write_request(self, context: Mapping[str, Payload]) -> None:
        """Write the request. `context` has the members that name its agent and step."""
        sent = self.sent
        self.run.learn(*headers.secrets(sent.headers, sent.url))
        endpoint = sent.endpoint
        known_names = self.run.call_names
        names = known_names.get((endpoint.provider, endpoint.model))
        if names is None:  # the first call of this model
            names = self.run.named(**without_none(provider=endpoint.provider, model=endpoint.model))
            if len(known_names) < MOST_CALL_NAMES:
                known_names[endpoint.provider, endpoint.model] = names
        if "redacted" in names:
            context = merge_facts(names, context)
        fact = LLMRequestFact(
            **self._members,
            api=endpoint.api,
            method=sent.method,
            stream=endpoint.streams or None,
            inferred=self._attempt.is_inferred or None,
            run_inferred=sent.run_inferred or None,
            added=sent.added,
            connection_id=sent.connection_id,
            url=clean_url(sent.url),
            headers={} if sent.connection_id else headers.kept(sent.headers),
            **{**names, **context},
        )
        changes, self._changes = self._changes, None  # they keep the body of the earlier request alive
        try:
            self.run.append_body(fact, sent.body, changes)
        except NotJsonError:
            self.run.append(structs.replace(fact, **text_member(sent.body, self.run.redaction.mask_bytes)))

    def note_answer(self, status: int, raw: Sequence[tuple[bytes, bytes]]) -> None:
        """Remember a failure, a redirect, or a stream that began.

        If the same request is sent again after a failure or a redirect, the new request is the next attempt. A stream
        is remembered only if its dialect answers in the background, because the program may poll the response.
        """
        if status >= 400:
            attempts.remember_failure(self.run, self._attempt, self.sent)
        elif status in REDIRECTS:
            attempts.remember_redirect(self.run, self._attempt, self.sent, raw)
        if self.response.is_stream and self._in_background:
            background_responses.streams.add(self)

    def note_origin(self, origin: ReplayedFrom) -> None:
        """Add `replayed_from` to all later records of the attempt: the recorded call that gave a replay its answer."""
        self._members["replayed_from"] = origin.to_document()

    def write_error(self, error: BaseException) -> None:
        """Write the error of a request that got no response."""
        attempts.remember_failure(self.run, self._attempt, self.sent)
        if (origin := ReplayedFrom.of_error(error)) is not None:
            self.note_origin(origin)
        self.run.append(LLMErrorFact(**self._members, duration_seconds=self._seconds(), **describe_error(error)))

    def write_response(self, ended_at: float, why: str | None, error: BaseException | None) -> None:
        """Write the end of the response. If the response ended early, `why` is the reason; otherwise `why` is None."""
        response = self.response
        if response.is_too_large:
            self.run.guard.queue_failure("record a whole response", str(response.missing))
        if response.is_stream:
            ending = self._end_of_stream(why)
        elif response.is_too_large:
            ending = {"ended_by": response.missing, "text": ""}
        else:
            if response.encoded is not None:
                why = why or response.missing
            body = b"".join([data for _, data in response.buffer])
            ending = {"ended_by": why, **body_member(body, self.run.redaction.mask_bytes)}
        if ending["ended_by"] is not None and error is not None:
            attempts.remember_failure(self.run, self._attempt, self.sent)
            ending["error"] = describe_error(error)
        fact = LLMResponseFact(
            **self._members,
            status=response.status,
            duration_seconds=round(ended_at - self._began, 6),
            complete=ending["ended_by"] is None,
            headers=response.headers,
            **ending,
        )
        self.run.append(fact)
        if self._in_background:
            self._note_unfinished(fact)

    def _seconds(self) -> float:
        """Return the seconds since the request."""
        return round(monotonic_seconds() - self._began, 6)

    def write_bare_response(self, failure: Exception) -> None:
        """Write an end without a body, because the response cannot be written. Then raise the failure."""
        fact = LLMResponseFact(
            **self._members,
            status=self.response.status,
            duration_seconds=self._seconds(),
            complete=False,
            headers={},
            ended_by="it could not be recorded",
            text="",
        )
        with ignore_failures:
            self.run.append(fact, is_ours=True)
        raise failure

    def _end_of_stream(self, why: str | None) -> dict[str, Payload]:
        """Write the rest of a stream, and assemble it. Return the members of its end."""
        response = self.response
        response.flush(last=True)
        joined: JoinedStream | None = None
        with self.run.guard.protect("put a stream together"):
            joined = join_stream(self.sent.endpoint.api, b"".join(response.written))
        why = self._why_incomplete(joined, why)
        if why is None and joined is not None and response.status < 300:
            advise_usage(self.sent.endpoint.api, self.sent.body, joined.body)
        ending = without_none(
            stream=True,
            chunks=response.chunks,
            events=None if joined is None else joined.events,
            last_event=None if joined is None else joined.ended,
            time_to_first_token_seconds=response.seconds(response.first),
            time_to_last_token_seconds=response.seconds(response.last),
        )
        body = None if joined is None else joined.body
        return {**ending, "ended_by": why, "assembled": JsonText(to_json(body))}

    def _why_incomplete(self, joined: JoinedStream | None, why: str | None) -> str | None:
        """Return why a stream is incomplete, or None if it is complete.

        A stream with its dialect's last event is complete unless a part of it is missing.
        """
        missing = self.response.missing
        if joined is not None and joined.ended and missing is None:
            return None
        known = None
        if self.response.status < 300:
            known = why_incomplete(joined)
        if joined is not None and joined.error is not None:  # an SDK closes the stream at such an error
            return known or why
        return why or missing or known

    def _note_unfinished(self, fact: LLMResponseFact) -> None:
        """Remember the response if it is not final, because the program will poll it."""
        with self.run.guard.protect("find out whether a response is final"):
            body = fact.assembled if fact.body is ABSENT else fact.body
            if type(body) is JsonText:
                identity = background_responses.response_id(body.text)
                if identity is not None and identity != self._polled_id:
                    background_responses.remember(self._background_call(identity))
        background_responses.streams.discard(self)

    def polled_early(self, poll: Poll) -> BackgroundCall | None:
        """Return this call if its open stream has the id of the polled response, or else None."""
        if poll.api != self.sent.endpoint.api:
            return None
        received = b"".join((*self.response.written, joined_bytes(self.response.buffer[:])))
        if f'"{poll.response_id}"'.encode() not in received:
            return None
        self._polled_id = poll.response_id
        background_responses.remember(call := self._background_call(poll.response_id))
        return call

    def _background_call(self, response_id: str) -> BackgroundCall:
        run, attempt = ref(self.run), self._attempt
        return BackgroundCall(
            self.sent.endpoint.api, response_id, run, attempt.interaction_id, attempt.number, self._began
        )


_advice_given: list[str] = []


def advise_usage(api: str, request: bytes, assembled: Payload) -> None:
    """Log at INFO, once in each process, that a streamed call states no token counts, and which option asks for them.

    A call whose request sets that option, to True or False, is not logged.
    """
    if _advice_given or as_dict(assembled).get("usage") or not may_omit_usage(api, b'"include_usage"' in request):
        return
    dialect = dialect_of(api)
    if dialect is None or dialect.read_response(assembled).usage.is_known:
        return
    _advice_given.append(USAGE_ADVICE)
    message = "the tokens of a streamed call are not stated: %s (logged once)"
    with ignore_failures:
        logger.info(message, USAGE_ADVICE)
