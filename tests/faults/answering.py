"""A model whose answers can be checked afterwards: each answer is a function of the question.

An agent asks under its own name, the first part of the path. The questions under each name are kept. The length of the
answer is the request's `max_tokens`. A streamed answer comes in pieces with short pauses. The model "stalling" sends
two pieces, and then nothing for a long time.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from zlib import crc32

from tests.provider import CHAT, Answer, Request, chat_chunk, serving, stream, whole
from tests.seams.frames import TYPE, delta, frame

STALL_SECONDS = 60.0
PIECES = 6


@dataclass
class Provider:
    """The running model: its address, and the received questions by the name of the agent."""

    url: str = ""
    asked: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def address_for(self, name: str) -> str:
        """Return the base URL under which an agent of this name asks."""
        return f"{self.url}/{name}/v1"


def answer_to(question: str, length: int) -> str:
    """Return the model's answer to a question, in about `length` characters."""
    words = f"Antwort auf {question}: größer \N{SNOWMAN}\n"
    return (words * (length // len(words) + 1))[: max(length, len(words))]


def _answer(provider: Provider, request: Request) -> Answer:
    body = json.loads(request.body)
    is_bedrock = "inferenceConfig" in body
    content = body["messages"][-1]["content"]
    question = content[0]["text"] if is_bedrock else content
    provider.asked[request.path.split("/")[1]].append(question)
    time.sleep(crc32(question.encode()) % 3 / 1000)
    text = answer_to(question, body["inferenceConfig"]["maxTokens"] if is_bedrock else body["max_tokens"])
    if is_bedrock:
        return _bedrock_answer(text, streams=request.path.endswith("converse-stream"))
    if body.get("stream"):
        return stream(*_pieces(text, stalls=body["model"] == "stalling"))
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return whole(json.dumps({**CHAT, "id": f"chat {question}", "choices": [choice]}).encode())


def _bedrock_answer(text: str, *, streams: bool) -> Answer:
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    if not streams:
        message = {"role": "assistant", "content": [{"text": text}]}
        return whole(json.dumps({"output": {"message": message}, "stopReason": "end_turn", "usage": usage}).encode())
    size = len(text) // PIECES + 1
    pieces = [delta(0, text=text[start : start + size]) for start in range(0, len(text), size)]
    end = [frame("messageStop", {"stopReason": "end_turn"}), frame("metadata", {"usage": usage})]
    return Answer([frame("messageStart", {"role": "assistant"}), *pieces, *end], headers=TYPE)


def _pieces(text: str, *, stalls: bool) -> Iterator[object]:
    size = len(text) // PIECES + 1
    for number, start in enumerate(range(0, len(text), size)):
        if number == 2 and stalls:
            yield STALL_SECONDS
        yield chat_chunk(text[start : start + size])
        yield 0.0005
    yield chat_chunk(None, "stop") + b"data: [DONE]\n\n"


@contextmanager
def answering() -> Iterator[Provider]:
    """Run the provider for the time of a block."""
    provider = Provider()
    with serving(partial(_answer, provider)) as server:
        provider.url = server.url
        yield provider
