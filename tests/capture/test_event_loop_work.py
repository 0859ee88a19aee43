"""However long an answer is, the thread of an event loop does little work, and a second thread does the rest."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trio

from tests.chat_calls import CHAT, asked, streamed
from tests.journals import records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.capture.exchange import LONG_STREAM_BYTES
from trace_recorder.capture.received_response import SHORT_BYTES
from trace_recorder.reading.validate import validate


def plain(*words: str) -> bytes:
    message = {"role": "assistant", "content": [{"type": "text", "text": word} for word in words]}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


WORDS = [f"word number {number} of this long answer " for number in range(4000)]
JSON, EVENTS = "application/json", "text/event-stream"
ANSWERS = {
    "plain": (plain(*WORDS), JSON),
    "shorter plain": (plain(*WORDS[:300]), JSON),
    "stream": (streamed(*WORDS).body, EVENTS),
    "shorter stream": (streamed(*WORDS[:140]).body, EVENTS),
}


class Wire(httpx.AsyncBaseTransport):
    """A transport that answers in chunks of some KB."""

    def __init__(self, body: bytes, media: str) -> None:
        self._body, self._media = body, media

    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(self._body), 16_000):
                yield self._body[at : at + 16_000]

        return httpx.Response(200, headers={"content-type": self._media}, content=chunks())


@pytest.mark.parametrize("library", [asyncio, trio])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_event_loop_masks_no_long_answer(tmp_path: Path, name: str, library: object) -> None:
    """A second thread masks a long answer except a short rest, and everything is recorded when the caller has the
    answer.
    """
    body, media = ANSWERS[name]
    assert (SHORT_BYTES < len(body) < LONG_STREAM_BYTES) == name.startswith("shorter")
    path = tmp_path / "run.json"
    masked: Counter[bool] = Counter()

    def redact(text: str) -> str:
        masked[threading.current_thread() is threading.main_thread()] += len(text)
        return text

    async def ask(recorder: TrajectoryRecorder) -> bytes:
        async with httpx.AsyncClient(transport=Wire(body, media)) as client:
            masked.clear()  # forget the records at the beginning of a run
            answer = await recorder.wrap(client).post(CHAT, json=asked("x", stream=media == EVENTS))
            written.extend(records_of(path))
            return answer.content

    written: list[object] = []
    with TrajectoryRecorder(path, redact=redact) as recorder:
        received = trio.run(ask, recorder) if library is trio else asyncio.run(ask(recorder))
        assert masked[True] <= min(SHORT_BYTES, masked[False] / 2)

    on_file = {one.kind for one in written if hasattr(one, "kind")}
    [one] = load(path).llm_interactions
    assert (received, one.complete) == (body, True)
    assert (one.raw_stream or "").encode() == (body if media == EVENTS else b"")
    assert on_file >= ({"llm_stream"} if name == "stream" else {"llm_response"})
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []


@pytest.mark.parametrize(("name", "ended_by"), [("plain", None), ("stream", "CancelledError")])
def test_a_call_cancelled_during_the_write_of_its_answer_is_recorded(
    tmp_path: Path, name: str, ended_by: str | None
) -> None:
    """The received part of a call that is cancelled during the write is recorded, and the event loop is not blocked.

    A plain answer is written when it has come completely, so it is complete.
    """
    body, media = ANSWERS[name]
    path = tmp_path / "run.json"
    begun, goes_on = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        if threading.current_thread() is not threading.main_thread() and "word number 0" in text:
            begun.set()
            goes_on.wait(60)
        return text

    async def ask(recorder: TrajectoryRecorder) -> None:
        async with httpx.AsyncClient(transport=Wire(body, media)) as client:
            task = asyncio.create_task(recorder.wrap(client).post(CHAT, json=asked("x", stream=media == EVENTS)))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    with TrajectoryRecorder(path, redact=redact) as recorder:
        asyncio.run(ask(recorder))

    [one] = load(path).llm_interactions
    assert (one.complete, one.ended_by) == (ended_by is None, ended_by)
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
