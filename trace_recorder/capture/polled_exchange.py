"""The recording of a poll: of the request by which a program fetches a response that was made in the background.

The final response is written as another `llm_response` of the call that it answers. Nothing is written of a poll that
came too early, or failed: the next one says more.
"""

from __future__ import annotations

import math
from typing import NoReturn

from trace_recorder.capture import attempts, background_responses
from trace_recorder.capture.attempts import SentRequest
from trace_recorder.capture.background_responses import BackgroundCall
from trace_recorder.capture.exchange import Exchange
from trace_recorder.dialects.background import is_final, tells_all
from trace_recorder.dialects.dialect import join_stream
from trace_recorder.recording.run import Run
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.body_encoding import body_member, joined_bytes
from trace_recorder.storage.redaction import headers
from trace_recorder.values.json_text import parse_leniently
from trace_recorder.values.jsonable import dump_members, to_json
from trace_recorder.values.messages import Payload


class PolledExchange(Exchange):
    """One poll. It is an exchange of the call's own interaction, and has begun when the call did."""

    def __init__(self, run: Run, sent: SentRequest, call: BackgroundCall) -> None:
        super().__init__(run, sent, (call.interaction_id, call.attempt))
        self._call = call
        self._began = call.began
        self._is_stream = False
        run.unfinished.hold(self)

    def answered(self, status: int, raw: list[tuple[bytes, bytes]], *, is_decoded: bool = False) -> None:
        """Take the status and the headers. A stream is kept as a plain body is, and neither is written in parts."""
        super().answered(status, raw, is_decoded=is_decoded)
        self._is_stream, self._streams, self._due = self._streams, False, math.inf

    def write_pending(self, *, last: bool = False) -> None:
        """Write nothing: what has come of a poll is worth nothing without the rest."""

    def failed(self, error: BaseException) -> None:  # noqa: ARG002 - nothing is written of it
        """Drop it: there is no response."""
        if self._finish():
            self.run.unfinished.release(self)

    def _remember_failure(self) -> None:
        """Do nothing: the next poll is no other attempt of the call."""

    def _write_ending(self, why: str | None, error: BaseException | None) -> None:
        if self._missing is not None or self._status >= 300 or self.run.closed:
            return
        if not self._is_stream and (why is not None or error is not None):
            return  # of a stream, its last event may have come all the same
        data = joined_bytes(self._buffer)
        body = self._body(data)
        if not is_final(body) or not background_responses.take(self._call):
            return
        self.run.learn(*headers.secrets(self._sent.headers, self._sent.url))
        said = f'"assembled":{to_json(body)}' if self._is_stream else body_member(data, self.run.mask_bytes)
        about = {"status": self._status, "duration_seconds": self._seconds(self._ended_at), "complete": True}
        kept = dump_members({"headers": self._headers})
        try:
            self.run.append("llm_response", {**self._about, **about, "polled": True}, f"{kept},{said}")
        except BaseException:
            background_responses.remember(self._call)  # the next poll may be written
            raise
        attempts.forget_failure(self.interaction_id)

    def _body(self, data: bytes) -> Payload:
        """Return the response; None of what is no JSON, and of a stream that does not have all of it."""
        if self._is_stream:
            joined = join_stream(self._call.api, data) if tells_all(self._call.api, self._sent.url) else None
            return joined.body if joined is not None and joined.ended else None
        try:
            return parse_leniently(data.decode())
        except ours(ValueError):
            return None

    def _write_bare_ending(self, failure: Exception) -> NoReturn:
        raise failure
