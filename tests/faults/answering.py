"""A model that answers so that everything can be judged afterwards: each answer is a function of what was asked.

An agent asks under a name of its own, the first part of the path; what the provider was asked under each name is
kept. The length of the answer is the request's `max_tokens`. A streamed answer comes in pieces with short pauses; of
the model "stalling", two pieces come, and then nothing for a long time.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from zlib import crc32

from tests.capture.server import CHAT, chat_chunk
from tests.local_server import LocalServer, running

STALL_SECONDS = 60.0
PIECES = 6


@dataclass
class Provider:
    """The running model: where it is, and what it was asked, by the name of the agent."""

    url: str
    asked: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def address_for(self, name: str) -> str:
        """The base URL under which an agent of this name asks."""
        return f"{self.url}/{name}/v1"


def answer_to(question: str, length: int) -> str:
    """What the model says to a question, in about `length` characters."""
    words = f"Antwort auf {question}: größer \N{SNOWMAN}\n"
    return (words * (length // len(words) + 1))[: max(length, len(words))]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        return

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        data = self.rfile.read(length)
        if len(data) < length:  # whoever asked was killed
            self.close_connection = True
            return
        body = json.loads(data)
        question = body["messages"][-1]["content"]
        provider: Provider = self.server.provider  # type: ignore[attr-defined]
        provider.asked[self.path.split("/")[1]].append(question)
        time.sleep(crc32(question.encode()) % 3 / 1000)
        try:
            (self._stream if body.get("stream") else self._answer)(question, body)
        except (BrokenPipeError, ConnectionResetError):  # whoever asked was killed
            self.close_connection = True

    def _answer(self, question: str, body: dict[str, int]) -> None:
        said = {"role": "assistant", "content": answer_to(question, body["max_tokens"])}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        whole = json.dumps({**CHAT, "id": f"chat {question}", "choices": [choice]}).encode()
        self._begin("application/json", f"content-length: {len(whole)}", whole)

    def _stream(self, question: str, body: dict[str, object]) -> None:
        text = answer_to(question, int(str(body["max_tokens"])))
        size = len(text) // PIECES + 1
        self._begin("text/event-stream", "transfer-encoding: chunked", b"")
        for number, at in enumerate(range(0, len(text), size)):
            if number == 2 and body["model"] == "stalling":
                time.sleep(STALL_SECONDS)
            self._piece(chat_chunk(text[at : at + size]))
            time.sleep(0.0005)
        self._piece(chat_chunk(None, "stop") + b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _begin(self, media: str, framing: str, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n{framing}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


@contextmanager
def answering() -> Iterator[Provider]:
    """Run the provider for a while."""
    http = LocalServer(_Handler)
    provider = Provider(http.url)
    http.provider = provider  # type: ignore[attr-defined]
    with running(http):
        yield provider
