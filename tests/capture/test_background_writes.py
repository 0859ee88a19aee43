"""At the end of a long stream in an event loop, the text is written at once, and a thread writes the assembled
response.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.chat_calls import CHAT, asked, streamed
from tests.journals import records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.validate import validate

WORDS = [f"word{number} " for number in range(2000)]


class Wire(httpx.AsyncBaseTransport):
    """A transport that answers with a stream."""

    def __init__(self, *words: str) -> None:
        self._body = streamed(*words).body

    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(self._body), 4096):
                yield self._body[at : at + 4096]

        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=pieces())


@pytest.mark.parametrize(("words", "aside"), [(WORDS, True), (["a", "b"], False)])
def test_a_long_stream_is_joined_by_a_thread(tmp_path: Path, words: list[str], *, aside: bool) -> None:
    """A thread writes the response of a long stream after the caller has the last chunk, and that of a short stream is
    written before. `finalize` waits for both.
    """
    path = tmp_path / "run.json"
    goes_on, threads = threading.Event(), set()

    def redact(text: str) -> str:
        if text == "".join(words):
            threads.add(threading.current_thread() is threading.main_thread())
            if aside:
                goes_on.wait(60)
        return text

    async def ask(recorder: TrajectoryRecorder) -> tuple[int, list[str]]:
        async with httpx.AsyncClient(transport=Wire(*words)) as client:
            response = await recorder.wrap(client).post(CHAT, json=asked("x", stream=True))
            return len(response.content), [record.kind for record in records_of(path)]

    with TrajectoryRecorder(path, redact=redact) as recorder:
        length, kinds = asyncio.run(ask(recorder))
        cut = load(path).llm_interactions[0]
        goes_on.set()

    assert (length, kinds.count("llm_response"), threads) == (len(streamed(*words).body), int(not aside), {not aside})
    assert (cut.raw_stream or "").encode() == streamed(*words).body
    [one] = load(path).llm_interactions
    assert (one.complete, one.response and one.response.content) == (True, "".join(words))
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
