"""A replay: an agent runs again, and its calls are answered from the journal of an earlier run.

    with trace_recorder.replay("trajectories/run.json") as run:
        run_my_agent(run.wrap(OpenAI(api_key="none")))

Each recorded call answers one request that equals the call's recorded request. A request that equals no unused recorded
request raises ReplayMismatchError. Recorded calls that no request has used are reported at the end.
"""

from __future__ import annotations

import base64
import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from trace_recorder.capture.decoding import plain_request
from trace_recorder.decompression import TooLargeError
from trace_recorder.dialects.endpoints import Endpoint, Poll
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.facts import ABSENT
from trace_recorder.locks import Lock
from trace_recorder.recording.stand_ins import Outcome, StandIn, let_tool_run, stand_in_for_tools
from trace_recorder.rerun.answers import Answer, Missing
from trace_recorder.rerun.clients import ReplayTransports
from trace_recorder.rerun.differences import explain_mismatch
from trace_recorder.rerun.matching import LiveRequest, Match, UnusedCalls
from trace_recorder.rerun.recorded import RecordedExchange, RecordedTool, Recording
from trace_recorder.rerun.tools import RecordedTools
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.redaction.headers import secrets
from trace_recorder.storage.redaction.redactor import Redaction, Redactor
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.json_text import NotJsonError, parse
from trace_recorder.values.messages import Payload
from trace_recorder.values.origins import ReplayedFrom, ReplayOf

Client = TypeVar("Client")
Tools = Literal["recorded", "live"]

logger = logging.getLogger("trace_recorder")


class Replay:
    """A replay, as a context manager: answers LLM calls from one journal.

    Each recorded call answers one request. Several threads and tasks may use a replay at the same time.

    `ignore` names members in which a request may differ from the recorded request (`"temperature"`,
    `"messages[0].content"`, `"tools[*].description"`). `match` is a function that compares a live request with a
    recorded request, in place of the usual comparison. With `match=results_in_any_order`, the tool results of a turn
    may be in any order. Streams are played `speed` times as fast as they were recorded, or without pauses if `speed` is
    None. If `tools` is "recorded", tools return their recorded results; if it is "live", they run. If `instrument` is
    True, every HTTP client of the process is answered. When the block has ended without an exception, unused recorded
    calls raise ReplayMismatchError if `strict` is True, and are logged if it is False. `missing` says what happens to a
    call or a tool that was not recorded: "error" raises ReplayMismatchError; "live" sends the call, and runs the tool.
    If `missing` is "live", a call is also sent if the end of its recorded answer is missing. `live_calls` counts the
    calls that were sent and the tools that ran.

    Raises TrajectoryFormatError if there is no journal, or if this version cannot read the journal.

    Examples:
        >>> with replay("trajectories/run.json") as run:
        ...     reply = run_my_agent(run.wrap(OpenAI(api_key="none")))
    """

    def __init__(  # noqa: PLR0913 - a name for each thing that a user may decide
        self,
        path: str | Path,
        *,
        ignore: Iterable[str] = (),
        match: Match | None = None,
        speed: float | None = None,
        tools: Tools = "recorded",
        missing: Missing = "error",
        instrument: bool = False,
        strict: bool = True,
        redact: Redactor | None = default_redactor,
    ) -> None:
        self.speed = speed
        self.strict = strict
        self.missing = missing
        self.live_calls = 0
        self.recording = Recording(path)
        self._calls = UnusedCalls(self.recording, ignore, match, self._claim)
        self._redaction = Redaction(redact)
        self._lock = Lock()
        self._installed = ReplayTransports(self)
        self._instruments = instrument
        self.tools = RecordedTools(self.recording.tools, self.recording.path.name, self._masked, self._claim)
        self._stands_in = tools == "recorded"
        self.mismatch: ReplayMismatchError | None = None
        """The mismatch of the first refused call, even if the agent caught the exception."""
        self._blocks = ExitStack()

    @property
    def origin(self) -> ReplayOf | None:
        """Return the replayed run, which is the origin of each run that is recorded during the replay."""
        return ReplayOf(self.recording.trajectory_id, self.recording.path.name)

    @property
    def unused(self) -> list[str]:
        """Return the ids of the recorded calls that no request has used, one id for each attempt.

        Calls that were made inside a tool are left out if the tool's recorded result was used, because the tool did not
        run.
        """
        return [call.interaction_id for call in calls_outside_tools(self._calls.unused, self.tools.used)]

    def __enter__(self) -> Self:
        if self._instruments:
            self._installed.everywhere()
        self._installed.answer_websockets()
        stand_in: StandIn = let_tool_run
        if self._stands_in:
            stand_in = self.tool_outcome
        self._blocks.enter_context(stand_in_for_tools(stand_in, self.origin))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._installed.remove()
        self._blocks.close()
        if error is not None:
            return
        # the agent may have caught the mismatch as a failure of a model or a tool
        if self.mismatch is not None and self.strict:
            raise self.mismatch
        unused = self.unused
        if not unused:
            return
        message = report_unused(self.recording.path.name, unused)
        if self.strict:
            raise ReplayMismatchError(message)
        logger.warning("%s", message)

    def wrap(self, client: Client) -> Client:
        """Answer the calls of a client from the recording until the block ends; return the same client.

        The clients of openai, anthropic and google-genai do not pause before a retry. Raises UnsupportedClientError for
        the clients that `TrajectoryRecorder.wrap` refuses.
        """
        self._installed.wrap(client)
        return client

    def http_client(self, library: str | None = None, **arguments: Any) -> Any:
        """Make an HTTP client of httpx or httpx2 that is answered from the recording.

        Pass it to an SDK that takes an HTTP client.
        """
        return self._installed.http_client(library, asynchronous=False, **arguments)

    def async_http_client(self, library: str | None = None, **arguments: Any) -> Any:
        """Make an async HTTP client of httpx or httpx2 that is answered from the recording."""
        return self._installed.http_client(library, asynchronous=True, **arguments)

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer | None:
        """Return the recorded answer to a request, or None if the request is to be sent. Raises ReplayMismatchError."""
        with self._lock:
            self._redaction.learn(secrets(headers)[0])
            live = LiveRequest(endpoint, self._read(plain_body(headers, body)))
            exchange = self._calls.take(live)
            if self.missing == "live" and (exchange is None or exchange.ending is None):
                self.live_calls += 1
                return None
            if exchange is None:
                message = explain_mismatch(live, self.recording, self._calls.unused)
                if self.recording.damaged:
                    message += f"\n  {self.recording.damaged} lines of the journal are damaged."
                raise self.refused(message)
        return self._recorded(exchange)

    def polled(self, poll: Poll) -> Answer | None:
        """Return the final answer to a poll, or None if the recording has no such response.

        If the request resumes a stream, the answer is the last event of the stream.
        """
        exchange = self.recording.polled.get(poll.response_id)
        if exchange is None:
            return None
        body = self.recording.body(exchange)
        response = exchange.facts.response
        if response is not None and response.assembled is not ABSENT:
            event = {"type": "response.completed", "response": response.assembled}
            body = f"event: response.completed\ndata: {json.dumps(event)}\n\n".encode()
        return Answer(status=exchange.status, headers=exchange.headers, body=body, origin=self._origin(exchange))

    def tool_outcome(self, name: str, arguments: Mapping[str, object]) -> Outcome | None:
        """Return the recorded outcome of a tool for these arguments, or None if the tool is to be run.

        Raises ReplayMismatchError if no unused outcome fits and `missing` is "error".
        """
        with self._lock:
            try:
                return self.tools.take(name, arguments)
            except ReplayMismatchError as mismatch:
                if self.missing == "live":
                    self.live_calls += 1
                    return None
                raise self.refused(str(mismatch)) from None

    def _claim(self, _: int) -> bool:
        """Return whether the record of this number may be used.

        This replay may use every record, because no other process uses the recording.
        """
        return True

    def refused(self, message: str) -> ReplayMismatchError:
        """Return a mismatch to raise, and remember the first mismatch.

        If `strict` is True, the end of the block raises the first mismatch again, because the agent may have caught it.
        """
        mismatch = ReplayMismatchError(message)
        self.mismatch = self.mismatch or mismatch
        return mismatch

    def _read(self, body: bytes) -> Payload:
        """Return the body of a request, masked as in a journal: a JSON object, a text, or other bytes as base64."""
        try:
            text = body.decode()
        except ours(UnicodeDecodeError):
            return base64.b64encode(self._redaction.mask_bytes(body)).decode()
        try:
            value = parse(text)
        except NotJsonError:
            value = None
        if not isinstance(value, dict):
            return self._masked(text)
        return self._masked_value(value, text)

    def _masked(self, value: Payload) -> Payload:
        return self._masked_value(value, json.dumps(value, ensure_ascii=False))

    def _masked_value(self, value: Payload, text: str) -> Payload:
        """Return the value whose JSON is `text`, masked."""
        masked, _ = self._redaction.mask(text)
        if masked == text:
            return value
        return json.loads(masked)

    def _recorded(self, exchange: RecordedExchange) -> Answer:
        body, chunks = b"", None
        if exchange.streams:
            chunks = self.recording.chunks(exchange)
        else:
            body = self.recording.body(exchange)
        return Answer(
            status=exchange.status,
            headers=exchange.headers,
            body=body,
            chunks=chunks,
            error=exchange.error,
            stopped=exchange.stopped,
            seconds=exchange.seconds,
            origin=self._origin(exchange),
        )

    def _origin(self, exchange: RecordedExchange) -> ReplayedFrom:
        return ReplayedFrom(self.recording.trajectory_id, exchange.interaction_id)


def plain_body(headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return the body of a request as it is recorded: decoded, or empty if it is too large to be decoded."""
    try:
        return plain_request(headers, body)
    except TooLargeError:
        return b""


def calls_outside_tools(calls: Sequence[RecordedExchange], tools: Sequence[RecordedTool]) -> list[RecordedExchange]:
    """Return the recorded calls that were not made inside one of these executions of tools."""
    spans = [(tool.seq, tool.ended_seq or math.inf) for tool in tools]
    return [call for call in calls if not any(begin < call.seq < end for begin, end in spans)]


def report_unused(name: str, unused: Sequence[str]) -> str:
    """Return the message about the calls of a recording that were not used."""
    message = f"{name} has calls that nobody asked for: {', '.join(unused[:10])}"
    if len(unused) > 10:
        message += f" and {len(unused) - 10} more"
    return message
