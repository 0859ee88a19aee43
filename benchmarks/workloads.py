"""The workloads of all contenders: conversations, large histories, tiny calls, streams, and agents at once.

A workload creates the client, makes a first call, so that imports, the connection and the first record are not
measured, and runs. All calls use the real OpenAI SDK. Agents at once and very long runs have separate files.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from benchmarks.contenders import Messages, Unrecorded
from benchmarks.real_texts import embedding, image, tool_result
from benchmarks.server import COMPLETION, COMPLETION_BYTES, HEADERS

MODEL = "gpt-4.1"
SYSTEM = {"role": "system", "content": "You mend programs. Think step by step, and say what you do."}
KB = 1000


def text(number: int, size: int) -> str:
    """Return a tool's result, different for each number."""
    return f"{number}\n{tool_result(number, size)}"


def history(size: int) -> Messages:
    """Return messages of about `size` characters: half of them are tool results, the others an image and a vector."""
    url = f"data:image/png;base64,{image(size * 3 // 8)}"
    return [
        *({"role": "user", "content": text(-number, 4 * KB)} for number in range(size // (8 * KB))),
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
        {"role": "user", "content": json.dumps({"embedding": embedding(size // 176)})},
    ]


def ask(client: Any, messages: Messages, **more: Any) -> Any:
    """Make one call."""
    return client.chat.completions.create(model=MODEL, messages=messages, **more)


def said(content: str, messages: Messages) -> dict[str, str]:
    """Return the message of an answer, to be sent back with the next request. Each text is different, as a model's
    would be.
    """
    asked = messages[-1]["content"].partition("\n")[0]
    return {"role": "assistant", "content": f"As to {asked}: {content}"}


def http_library() -> Any:
    """Return the HTTP library of the installed SDK: httpx2 since openai 3."""
    return import_module("httpx2" if int(import_module("openai").__version__.split(".")[0]) >= 3 else "httpx")


@dataclass(frozen=True)
class Conversation:
    """Calls in sequence, each with the whole earlier conversation, over the local server or a mock transport."""

    name: str
    says: str
    calls: int
    laps: int
    quick: int
    """How many calls a lap has in quick mode."""
    counted: int = 0
    """How many calls a lap has when instructions are counted, or 0 if they are not counted."""
    size: int = 4 * KB
    before: int = 0
    """How many bytes of history there are at the first call."""
    mocked: bool = False
    rounds: int = 1000
    """The largest number of rounds."""
    excludes: frozenset[str] = frozenset()
    """Contenders that would take hours."""

    def client(self, url: str) -> Any:
        """Return the client of a process."""
        if not self.mocked:
            return import_module("openai").OpenAI(api_key="sk-bench", base_url=f"{url}/v1", max_retries=0)
        http = http_library()
        headers = {"content-type": "application/json", **HEADERS}
        answer = http.MockTransport(lambda _: http.Response(200, headers=headers, content=COMPLETION_BYTES))
        own = http.Client(transport=answer)
        return import_module("openai").OpenAI(api_key="sk-bench", http_client=own, max_retries=0)

    def warm(self, client: Any, contender: Unrecorded) -> Messages:
        """Make the first call, and return the messages with which the next call begins."""
        messages = [SYSTEM, *history(self.before)] if self.before else [SYSTEM]
        self.turn(client, contender, [*messages, {"role": "user", "content": "Are you there?"}])
        return messages

    def run(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, float]:
        """Make the measured calls. Return figures beside those of the clock."""
        for number in range(self.calls):
            messages.append({"role": "user", "content": text(number, self.size)})
            messages.append(self.turn(client, contender, messages))
        return {}

    def turn(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, str]:
        """Make a call, and return its answer."""
        answer = ask(client, messages)
        contender.record(messages, answer)
        return said(answer.choices[0].message.content, messages)


@dataclass(frozen=True)
class TinyCalls(Conversation):
    """Calls without a history."""

    def run(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, float]:
        """Make the calls, each with one short message."""
        for number in range(self.calls):
            self.turn(client, contender, [SYSTEM, {"role": "user", "content": f"Is {number} prime?"}])
        return {}


@dataclass(frozen=True)
class Streams(Conversation):
    """Streamed calls."""

    def client(self, url: str) -> Any:
        """Return the client of a process, whose server streams."""
        return super().client(f"{url}/stream")

    def run(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, float]:
        """Make the calls. Return the median of the seconds until the first chunk."""
        firsts = []
        for number in range(self.calls):
            messages.append({"role": "user", "content": text(number, self.size)})
            began = time.perf_counter()
            stream = iter(ask(client, messages, stream=True))
            chunks = [next(stream)]
            firsts.append(time.perf_counter() - began)
            chunks.extend(stream)
            messages.append(self._record(contender, messages, chunks))
        return {"first_chunk": statistics.median(firsts)}

    def turn(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, str]:
        """Make a call that is not timed separately."""
        return self._record(contender, messages, list(ask(client, messages, stream=True)))

    @staticmethod
    def _record(contender: Unrecorded, messages: Messages, chunks: list[Any]) -> dict[str, str]:
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        message = said(content, messages)
        choice = {"message": message, "finish_reason": "stop"}
        contender.record(messages, {"model": COMPLETION["model"], "choices": [choice]})
        return message
