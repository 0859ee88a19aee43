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
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from urllib.parse import urljoin

from trace_recorder.capture.decoding import plain_request
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.dialects.form_bodies import is_form, without_boundary
from trace_recorder.recording.run import Run


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it is about to be sent."""

    endpoint: Endpoint
    method: str
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    """The body without its content encoding. It is empty if the body is not known."""
    undecoded: bytes = b""
    """The body as it is sent, if it is too large to be decoded. It is compared, but never recorded."""
    is_encoded: bool = False
    """Whether `body` has a content encoding still."""
    run_inferred: bool = False
    """Whether the recorder inferred the run of the call, because the context of the call names no recorder."""

    def decoded(self) -> SentRequest:
        """Return the request with its body decoded. A multipart form becomes JSON. Raises TooLargeError."""
        headers = without_boundary(self.headers) if is_form(self.headers) else self.headers
        return replace(self, headers=headers, body=plain_request(self.headers, self.body), is_encoded=False)


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    """The last exchange in this context, if it failed or was redirected.

    If its request is sent again, the new request is the next attempt.
    """

    run: Run
    interaction_id: str
    attempt: int
    digest: bytes
    redirected: bool = False
    claims: Iterator[int] = field(default_factory=itertools.count)
    """Counts the requests that claim to be the next attempt.

    Contexts are copied, so several requests may find this failure. Only the first of them is the next attempt.
    """


_failed: ContextVar[_FailedAttempt | None] = ContextVar("trace_recorder_failed_attempt", default=None)


def identify(run: Run, sent: SentRequest) -> tuple[str, int, bool]:
    """Return the interaction id of a request, the number of its attempt, and whether that number is inferred."""
    last = _failed.get()
    if last is not None:
        _failed.set(None)
        if last.run is run and last.digest == _digest(sent.url, sent) and next(last.claims) == 0:
            states_retry = dict(sent.headers).get(b"x-stainless-retry-count", b"0") != b"0"
            return last.interaction_id, last.attempt + 1, not (states_retry or last.redirected)
    return run.next_id(), 0, False


def remember_failure(run: Run, interaction_id: str, attempt: int, sent: SentRequest) -> None:
    """Remember a request that failed.

    If this context repeats the request, the repeated request is the next attempt of the call.
    """
    _failed.set(_FailedAttempt(run, interaction_id, attempt, _digest(sent.url, sent)))


def forget_failure(interaction_id: str) -> None:
    """Forget the failure of an interaction that now has its answer.

    If this context sends the same request again, the request is a new call, not the next attempt.
    """
    last = _failed.get()
    if last is not None and last.interaction_id == interaction_id:
        _failed.set(None)


def remember_redirect(
    run: Run, interaction_id: str, attempt: int, sent: SentRequest, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Remember a request that was redirected.

    If this context follows the redirect, the new request is the next attempt.
    """
    location = next((value for name, value in headers if name.lower() == b"location"), b"")
    url = urljoin(sent.url, location.decode("latin-1"))
    _failed.set(_FailedAttempt(run, interaction_id, attempt, _digest(url, sent), redirected=True))


def _digest(url: str, sent: SentRequest) -> bytes:
    data = f"{url}\0".encode("utf-8", "surrogatepass") + (sent.body or sent.undecoded)
    return blake2b(data, digest_size=16).digest()
