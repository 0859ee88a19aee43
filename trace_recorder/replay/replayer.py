"""A replay: what a user holds of a run that is answered from its journal.

    with trace_recorder.replay("trajectories/run.json") as replay:
        run_my_agent(replay.wrap(OpenAI(api_key="none")))

Each recorded call is given once, to the request that equals it; what equals nothing raises, and what was never asked
for is reported at the end.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from trace_recorder.capture.headers import secrets
from trace_recorder.dialects.endpoints import Endpoint
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.replay.clients import Installed
from trace_recorder.replay.differences import explained
from trace_recorder.replay.matching import Live, Match, Requests
from trace_recorder.replay.recorded import RecordedExchange, Recording
from trace_recorder.replay.transport import Answer
from trace_recorder.storage.redaction.redactor import Redaction, Redactor, default_redactor
from trace_recorder.values.messages import Payload

Client = TypeVar("Client")
Tools = Literal["recorded", "live"]

logger = logging.getLogger("trace_recorder")


class Replay:
    """Answers LLM calls from one journal, each recorded call once. Threads and tasks may ask at the same time.

    `ignore` names what two requests may differ in (`"temperature"`, `"messages[0].content"`, `"tools[*].description"`);
    `match`, a function of the live request and the recorded one, takes the place of comparing them. `speed` plays
    streams at so many times the speed at which they came; None gives all chunks at once. With `strict`, a replay that
    ends without an exception raises ReplayMismatchError for recorded calls that nobody asked for; else they are logged.

    Raises TrajectoryFormatError where there is no journal, or one that this version cannot read.
    """

    def __init__(  # noqa: PLR0913 - a name for each thing that a user may decide
        self,
        path: str | Path,
        *,
        ignore: Iterable[str] = (),
        match: Match | None = None,
        speed: float | None = None,
        tools: Tools = "recorded",
        instrument: bool = False,
        strict: bool = True,
        redact: Redactor | None = default_redactor,
    ) -> None:
        self.speed = speed
        self.strict = strict
        self.tools = tools
        self.recording = Recording(path)
        self._requests = Requests(self.recording, ignore, match)
        self._redaction = Redaction(redact)
        self._lock = threading.Lock()
        self._installed = Installed(self)
        self._instruments = instrument

    @property
    def unused(self) -> list[str]:
        """The recorded calls that nobody has asked for yet, as the ids of their interactions, one an attempt."""
        return [exchange.interaction_id for exchange in self._requests.left]

    def __enter__(self) -> Self:
        if self._instruments:
            self._installed.everywhere()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._installed.remove()
        unused = self.unused
        if not unused or error is not None:
            return
        said = f"{self.recording.path.name} has calls that nobody asked for: {', '.join(unused[:10])}"
        said += f" and {len(unused) - 10} more" if len(unused) > 10 else ""
        if self.strict:
            raise ReplayMismatchError(said)
        logger.warning("%s", said)

    def wrap(self, client: Client) -> Client:
        """Have a client answered from the recording until the block ends; return the same client.

        Retries do not wait. Raises UnsupportedClientError for what `TrajectoryRecorder.wrap` does not know either.
        """
        self._installed.wrap(client)
        return client

    def http_client(self, library: str | None = None, **arguments: Any) -> Any:
        """Make an HTTP client of httpx or httpx2 that is answered from the recording, for an SDK that takes one."""
        return self._installed.http_client(library, asynchronous=False, **arguments)

    def async_http_client(self, library: str | None = None, **arguments: Any) -> Any:
        """Make the same for an async SDK."""
        return self._installed.http_client(library, asynchronous=True, **arguments)

    def answer(self, endpoint: Endpoint, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
        """The recorded answer to one request. Raises ReplayMismatchError where there is none."""
        with self._lock:
            self._redaction.learn(secrets(headers))
            live = Live(endpoint, self._read(body))
            exchange = self._requests.take(live)
            if exchange is None:
                said = explained(live, self.recording, self._requests.left)
                damaged = self.recording.damaged
                raise ReplayMismatchError(said + (f"\n  {damaged} lines of it are damaged." if damaged else ""))
        return self._recorded(exchange)

    def _read(self, body: bytes) -> Payload:
        """What a request says, masked as it would be on file."""
        text = body.decode("utf-8", "replace")
        try:
            json.loads(text)
        except ValueError:
            return self._redaction.mask_plain(text)
        value: Payload = json.loads(self._redaction.mask(text)[0])
        return value

    def _recorded(self, exchange: RecordedExchange) -> Answer:
        streams = bool(exchange.parts) or bool(exchange.ending and exchange.ending.data.get("stream"))
        return Answer(
            status=exchange.status,
            headers=exchange.headers,
            body=b"" if streams else self.recording.body(exchange),
            chunks=self.recording.chunks(exchange) if streams else None,
            error=exchange.error,
            stopped=exchange.stopped,
        )
