"""Recognises attempts: requests that a program sends again after they failed.

A request is the next attempt of a call if the last request of its context failed, and both requests have the same
address and body. A redirected request counts as failed. A context variable keeps the failure, so that a request of
another task or thread is not taken for the next attempt. The variable has only a digest of the request, because
contexts may live long.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from hashlib import blake2b
from urllib.parse import urljoin

from trace_recorder.capture.decoding import plain_request
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.form_bodies import is_form, without_boundary
from trace_recorder.recording.run import Run
from trace_recorder.values.messages import Payload
from trace_recorder.values.structs import Struct, field, replace


class SentRequest(Struct, frozen=True):
    """A request as it is about to be sent."""

    endpoint: Endpoint
    method: str
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    """The body without its content encoding. It is empty if the body is not known."""
    undecoded: bytes = b""
    """The body as it is sent, if it is too large to be decoded. It is compared, but never recorded."""
    passes: bool = False
    """Whether the body is made while it is sent, so that `body` is empty until the last byte has passed."""
    is_encoded: bool = False
    """Whether `body` has a content encoding still."""
    run_inferred: bool = False
    """Whether the recorder inferred the run of the call, because the context of the call names no recorder."""
    added: dict[str, Payload] | None = None
    """What the proxy adds to the body when it is sent: the member `added` of the record."""
    connection_id: str | None = None
    """The websocket over which the request is sent. `headers` are then those of the handshake, which has a record."""

    def decoded(self) -> SentRequest:
        """Return the request with its body decoded. A multipart form becomes JSON. Raises TooLargeError."""
        headers = self.headers
        if is_form(headers):
            headers = without_boundary(headers)
        return replace(self, headers=headers, body=plain_request(self.headers, self.body), is_encoded=False)


class AttemptId(Struct, frozen=True, gc=False):
    """Which call a request belongs to, and which attempt of the call it is. The first attempt has the number 0."""

    interaction_id: str
    number: int
    is_inferred: bool
    """Whether the recorder inferred that the request repeats a failed one, because its headers do not state it."""


class _FailedAttempt(Struct, frozen=True):
    """The last exchange in this context, if it failed or was redirected.

    If its request is sent again, the new request is the next attempt.
    """

    run: Run
    attempt: AttemptId
    digest: bytes
    redirected: bool = False
    claims: Iterator[int] = field(default_factory=itertools.count)
    """Counts the requests that claim to be the next attempt.

    Contexts are copied, so several requests may find this failure. Only the first of them is the next attempt.
    """


_failed: ContextVar[_FailedAttempt | None] = ContextVar("trace_recorder_failed_attempt", default=None)


def identify(run: Run, sent: SentRequest) -> AttemptId:
    """Return which call a request belongs to, and which attempt of it the request is. Its body must be decoded."""
    last = _failed.get()
    if last is not None:
        _failed.set(None)
        if last.run is run and last.digest == _digest(sent.url, sent) and next(last.claims) == 0:
            states_retry = dict(sent.headers).get(b"x-stainless-retry-count", b"0") != b"0"
            is_inferred = not (states_retry or last.redirected)
            return AttemptId(last.attempt.interaction_id, last.attempt.number + 1, is_inferred)
    return AttemptId(run.next_id(), 0, is_inferred=False)


def remember_failure(run: Run, attempt: AttemptId, sent: SentRequest) -> None:
    """Remember a request that failed.

    If this context repeats the request, the repeated request is the next attempt of the call.
    """
    _failed.set(_FailedAttempt(run, attempt, _digest(sent.url, sent)))


def forget_failure(interaction_id: str) -> None:
    """Forget the failure of an interaction that now has its answer.

    If this context sends the same request again, the request is a new call, not the next attempt.
    """
    last = _failed.get()
    if last is not None and last.attempt.interaction_id == interaction_id:
        _failed.set(None)


def remember_redirect(run: Run, attempt: AttemptId, sent: SentRequest, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Remember a request that was redirected.

    If this context follows the redirect, the new request is the next attempt.
    """
    location = next((value for name, value in headers if name.lower() == b"location"), b"")
    url = urljoin(sent.url, location.decode("latin-1"))
    _failed.set(_FailedAttempt(run, attempt, _digest(url, sent), redirected=True))


def _digest(url: str, sent: SentRequest) -> bytes:
    data = f"{url}\0".encode("utf-8", "surrogatepass") + (sent.body or sent.undecoded)
    return blake2b(data, digest_size=16).digest()
