"""A local provider from a recording: an HTTP server on 127.0.0.1 that answers LLM calls as a replay does.

Programs in any language use the server as their provider, so a program can be replayed without code of this package
inside the program. `Replay` decides which recorded call answers a request. A request that equals no unused recorded
request gets status 404, because SDKs do not retry after 404. The body of the 404 lists the differences, in the error
format of the dialect.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from trace_recorder.dialects.dialect import DIALECTS, dialect_of
from trace_recorder.dialects.endpoints import BASE_URL_VARIABLES, Recognition, recognise, sdk_of
from trace_recorder.errors import ReplayMismatchError
from trace_recorder.loopback import HOST, why_refused
from trace_recorder.rerun.answers import CANCELLATION_GRACE_SECONDS, FRAMING_HEADERS, Answer, Pace
from trace_recorder.rerun.recorded import Recording
from trace_recorder.rerun.replayer import Replay
from trace_recorder.signal_handlers import ours
from trace_recorder.values.messages import Payload

NOT_FOUND = 404


class ReplayServer(ThreadingHTTPServer):
    """A server on a port of 127.0.0.1, with a thread for each connection.

    Port 0 is any free port. `url` is the address. `on_mismatch` is called with each mismatch, in the thread of the
    connection. Raises OSError if the port is taken.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, replay: Replay, port: int = 0, on_mismatch: Callable[[str], object] = lambda _: None) -> None:
        self.replay = replay
        self.on_mismatch = on_mismatch
        super().__init__((HOST, port), _ReplayHandler)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{HOST}:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Print an error, unless the client has closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def base_urls(recording: Recording, url: str) -> dict[str, str]:
    """Return the environment variables that direct the SDKs of a recording's dialects to a server."""
    speaking = {sdk_of(exchange.endpoint) for exchange in recording.exchanges}
    return {variable: f"{url}{path}" for sdk, (variable, path) in BASE_URL_VARIABLES.items() if sdk in speaking}


def error_body(api: str, message: str) -> Payload:
    """Return an error as a dialect states it, or as OpenAI does if the dialect is unknown."""
    dialect = dialect_of(api) or DIALECTS["openai-chat"]
    return dialect.not_found(message)


class _ReplayHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ReplayServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing, because `on_mismatch` of the server reports mismatches."""

    def do_GET(self) -> None:
        """Answer a poll of a recorded response.

        Refuse any other request that is not an LLM call.
        """
        if self._is_refused():
            return
        poll = self._recognition().poll
        if poll is not None:
            polled = self.server.replay.polled(poll)
            if polled is not None:
                self._give(polled)
                return
        self.close_connection = True
        self._refuse("", f"{self.command} {self.path} is not an LLM call. Only LLM calls are answered here.")

    def do_POST(self) -> None:
        """Answer one LLM call."""
        body = self._body()
        if body is None or self._is_refused():
            return
        endpoint = self._recognition().call
        if endpoint is None:
            self.do_GET()
            return
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        try:
            answer = self.server.replay.answer(endpoint, headers, body)
        except ReplayMismatchError as mismatch:
            self._refuse(endpoint.api, str(mismatch))
            return
        if answer is not None:
            self._give(answer)

    def _recognition(self) -> Recognition:
        return recognise(self.command, HOST, urlsplit(self.path).path, self.server.server_port)

    def _body(self) -> bytes | None:
        """Return the body of the request. If its framing is not valid HTTP, answer with 400 and return None."""
        try:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                return b"".join(iter(self._chunk, b""))
            length = int(self.headers.get("content-length") or 0)
            if length >= 0:
                return self.rfile.read(length)
        except ours(ValueError):
            pass
        self.close_connection = True
        self.send_error(400)
        return None

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().partition(b";")[0], 16)
        data = self.rfile.read(size)
        while self.rfile.readline() not in (b"\r\n", b"\n", b""):  # after the last chunk, there may be trailers
            pass
        return data

    def _is_refused(self) -> bool:
        """Refuse a request from a web page, or with a host that is not this server.

        Return whether the request was refused.
        """
        why = why_refused(self.server.server_port, self.command, self.headers.get)
        if why is not None:
            self.send_error(403, why)
        return why is not None

    def _refuse(self, api: str, message: str) -> None:
        self.server.on_mismatch(message)
        body = json.dumps(error_body(api, message)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        if self.close_connection:
            headers["connection"] = "close"
        self._begin(NOT_FOUND, headers)
        self.wfile.write(body)

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _give(self, answer: Answer) -> None:
        pace = Pace(self.server.replay.speed)
        if answer.status is None:
            self._cut_off(answer, pace)
            return
        headers = _headers_of(answer)
        if answer.chunks is None and not answer.is_cut_off:
            self._begin(answer.status, {**headers, "content-length": str(len(answer.body))})
            self.wfile.write(answer.body)
            return
        frames = self.request_version != "HTTP/1.0"
        if frames:
            headers["transfer-encoding"] = "chunked"
        self._begin(answer.status, headers)
        self.close_connection = self.close_connection or not frames
        for data in filter(None, answer.pieces_in_time(pace)):
            if frames:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            else:
                self.wfile.write(data)
        if answer.is_cut_off:
            self._cut_off(answer, pace)
        elif frames:
            self.wfile.write(b"0\r\n\r\n")

    def _cut_off(self, answer: Answer, pace: Pace) -> None:
        """Close the connection where the recorded response broke off.

        If the recorded call was cancelled, wait before closing, so that the replayed program can cancel its call too.
        """
        if answer.stopped is not None or (answer.error is None and answer.status is None):
            why = f"the rest of the answer is not on file: {answer.stopped or 'no answer came'}"
            self.server.on_mismatch(str(self.server.replay.refused(why)))
        if answer.was_cancelled:
            select.select([self.connection], [], [], pace.remaining(answer.seconds) + CANCELLATION_GRACE_SECONDS)
        self.close_connection = True


def _headers_of(answer: Answer) -> dict[str, str]:
    """Return the headers of an answer, except those that say where the body ends.

    The `location` of a redirect becomes an address of this server.
    """
    headers = answer.headers
    if answer.origin is not None:
        headers = headers | answer.origin.to_headers()
    headers = {name: value for name, value in headers.items() if name.lower() not in FRAMING_HEADERS}
    if "location" in headers:
        headers["location"] = urlsplit(headers["location"])._replace(scheme="", netloc="").geturl()
    return headers
