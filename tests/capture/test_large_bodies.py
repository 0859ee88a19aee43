"""Large answers and requests that are not streams are written by a thread while an event loop waits."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
import trio

from tests.chat_calls import CHAT
from tests.journals import records_of
from tests.limits import limited
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.background_work import current_yield
from trace_recorder.reading.validate import validate

KEY = "sk-ant-api03-" + "aB3xY9kQ7m" * 4


def answer(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    body = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return json.dumps(body, ensure_ascii=False).encode()


IMAGE = base64.b64encode(random.Random(0).randbytes(200_000)).decode()


class Wire(httpx.AsyncBaseTransport):
    """A transport that answers in chunks. `sends` is called when a request is sent."""

    def __init__(self, body: bytes, sends: Callable[[], None] = lambda: None, *, coded: bool = False) -> None:
        self._body = gzip.compress(body) if coded else body
        self._headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if coded else {})
        self._sends = sends

    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        self._sends()

        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(self._body), 65_536):
                yield self._body[at : at + 65_536]

        return httpx.Response(200, headers=self._headers, content=chunks())


async def ask(recorder: TrajectoryRecorder, wire: Wire, asked: object = "x") -> httpx.Response:
    async with httpx.AsyncClient(transport=wire) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": asked}]}
        return await recorder.wrap(client).post(CHAT, json=body)


@pytest.mark.parametrize("coded", [False, True])
def test_a_large_answer_is_one_record(tmp_path: Path, *, coded: bool) -> None:
    """A large answer is on file, as JSON in one record with its secrets masked, when the caller has it."""
    content = f"Grüße {KEY} " + "und noch mehr davon, " * 20_000
    kinds: list[str] = []

    async def run(recorder: TrajectoryRecorder) -> None:
        await ask(recorder, Wire(answer(content), coded=coded))
        kinds.extend(record.kind for record in records_of(path))

    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        asyncio.run(run(recorder))

    masked = json.loads(answer(content.replace(KEY, "[REDACTED:anthropic-key]")))
    assert kinds[-2:] == ["llm_request", "llm_response"]
    assert [record.data["body"] for record in records_of(path) if record.kind == "llm_response"] == [masked]
    [one] = load(path).llm_interactions
    assert (one.raw_response, one.raw_stream, one.stream, one.complete) == (masked, None, False, True)
    document = json.loads(path.read_text())
    assert document["llm_interactions"][0]["response"]["content"] == masked["choices"][0]["message"]["content"]
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []


@pytest.mark.parametrize("coded", [False, True])
def test_a_body_beyond_the_limit_is_named_and_not_kept(tmp_path: Path, *, coded: bool) -> None:
    """A body that is too large for memory reaches the caller whole. The record says why it has no body."""
    body = answer(IMAGE + IMAGE)
    path = tmp_path / "run.json"
    with limited(body_bytes=100_000)(path) as recorder:
        received = asyncio.run(ask(recorder, Wire(body, coded=coded)))

    [one] = load(path).llm_interactions
    assert received.content == body
    assert (one.complete, one.ended_by, one.raw_response) == (False, "it has more than 100000 bytes", None)
    assert [gap.what for gap in load(path).gaps] == ["record a whole response"]


@pytest.mark.parametrize("library", [asyncio, trio])
def test_a_large_request_is_written_by_a_thread_before_it_is_sent(tmp_path: Path, library: object) -> None:
    """On asyncio and trio, a thread writes a large request before it is sent.

    The event loop itself writes a small one.
    """
    path = tmp_path / "run.json"
    masked_by: dict[bool, str] = {}
    sent: list[int] = []

    def redact(text: str) -> str:
        if text in {IMAGE, "short question"}:
            masked_by[text == IMAGE] = threading.current_thread().name
        return text

    def sends() -> None:
        sent.append(sum(record.kind == "llm_request" for record in records_of(path)))

    async def run(recorder: TrajectoryRecorder) -> None:
        await ask(recorder, Wire(answer("hi"), sends), "short question")
        await ask(recorder, Wire(answer("hi"), sends), IMAGE)

    with TrajectoryRecorder(path, redact=redact) as recorder:
        trio.run(run, recorder) if library is trio else asyncio.run(run(recorder))

    assert sent == [1, 2]
    assert masked_by == {False: "MainThread", True: "trace_recorder request"}
    assert load(path).llm_interactions[1].raw_request["messages"][0]["content"] == IMAGE


def test_others_can_record_while_a_large_request_is_masked(tmp_path: Path) -> None:
    """While a large request is masked, other calls are recorded.

    A cancelled caller is recorded as cancelled after the request.
    """
    path = tmp_path / "run.json"
    masks, goes_on = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        if text == IMAGE:
            masks.set()
            goes_on.wait(60)
        return text

    async def run(recorder: TrajectoryRecorder) -> None:
        large = asyncio.create_task(ask(recorder, Wire(answer("never")), IMAGE))
        await asyncio.to_thread(masks.wait, 60)
        response = await ask(recorder, Wire(answer("hi")), "short")
        assert (response.status_code, large.done()) == (200, False)
        large.cancel()
        with pytest.raises(asyncio.CancelledError):
            await large
        goes_on.set()

    with TrajectoryRecorder(path, redact=redact) as recorder:
        asyncio.run(run(recorder))

    small, large = sorted(load(path).llm_interactions, key=lambda one: not one.complete)
    assert (small.complete, large.complete, large.error and large.error.type) == (True, False, "CancelledError")
    assert large.raw_request["messages"][0]["content"] == IMAGE
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []


def test_others_can_record_at_every_step_of_a_large_request(tmp_path: Path) -> None:
    """The run's lock is free at each pause while a large request is split, masked and encoded."""
    message = {"role": "user", "content": [{"text": "small" * 9}] * 1000 + [{"image": IMAGE}]}
    path = tmp_path / "run.json"
    steps: list[bool] = []
    goes_on = [True]

    def record(number: int) -> None:
        recorder.annotate(f"step {number}", number)

    def step() -> None:
        if goes_on:
            other = threading.Thread(target=record, args=(len(steps),), daemon=True)
            other.start()
            other.join(60)
            steps.append(not other.is_alive())

    with TrajectoryRecorder(path) as recorder:
        client = recorder.wrap(httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json={}))))
        token = current_yield.set(step)
        try:
            client.post(CHAT, json={"model": "m", "messages": [message]})
        finally:
            current_yield.reset(token)
            goes_on.clear()

    assert all(steps)
    assert steps
    assert load(path).llm_interactions[0].raw_request["messages"] == [message]
    assert validate(path).findings == ()
