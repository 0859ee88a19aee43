"""Large answers and requests that are not streams are written in bounded parts, or by a thread."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trio

from tests.chat_calls import CHAT
from tests.journals import records_of
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.background_work import current_yield
from trace_recorder.capture.received_response import LARGE_BODY_BYTES
from trace_recorder.derive.validate import validate
from trace_recorder.values.messages import Payload

KEY = "sk-ant-api03-" + "aB3xY9kQ7m" * 4
LARGEST_PART = 32 * 1024


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


def texts(path: Path) -> Iterator[bytes]:
    """Yield the texts of the recorded parts."""
    for record in records_of(path):
        if record.kind == "llm_stream":
            yield zlib.decompress(base64.b64decode(record.data["zlib"]))


@pytest.mark.parametrize("coded", [False, True])
def test_a_large_answer_is_recorded_in_bounded_parts(tmp_path: Path, *, coded: bool) -> None:
    """A large answer is written in parts that do not block an event loop for long, and is read like one of a single
    record.
    """
    content = f"Grüße {KEY} " + "und noch mehr davon, " * 20_000
    kinds: list[str] = []

    async def run(recorder: TrajectoryRecorder) -> None:
        await ask(recorder, Wire(answer(content), coded=coded))
        kinds.extend(record.kind for record in records_of(path))

    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        asyncio.run(run(recorder))

    found = [len(text) for text in texts(path)]
    masked = content.replace(KEY, "[REDACTED:anthropic-key]")
    assert (kinds[-1], max(found) <= LARGEST_PART, len(found) > 10) == ("llm_response", True, True)
    [one] = load(path).llm_interactions
    assert (one.raw_response, one.raw_stream, one.stream) == (json.loads(answer(masked)), None, False)
    assert (one.complete, one.response and one.response.content) == (True, masked)
    assert json.loads(path.read_text())["llm_interactions"][0]["response"]["content"] == masked
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []


def test_a_small_answer_is_one_record(tmp_path: Path) -> None:
    """A small answer is recorded as JSON in one record."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        asyncio.run(ask(recorder, Wire(answer("x" * (LARGE_BODY_BYTES - 1000)))))

    assert list(texts(path)) == []
    assert [record.data["body"] for record in records_of(path) if record.kind == "llm_response"] == [
        json.loads(answer("x" * (LARGE_BODY_BYTES - 1000)))
    ]


def test_a_highly_compressible_answer_can_be_read(tmp_path: Path) -> None:
    """An answer whose compressed form would look like a decompression bomb is stored uncompressed."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        asyncio.run(ask(recorder, Wire(answer("x" * 500_000))))

    packed = sum(
        len(base64.b64decode(record.data["zlib"])) for record in records_of(path) if record.kind == "llm_stream"
    )
    assert packed * 64 > 500_000
    assert load(path).llm_interactions[0].raw_response == json.loads(answer("x" * 500_000))


def test_a_missing_part_of_a_large_answer_is_found(tmp_path: Path) -> None:
    """An answer with a missing part is not read as complete, and `validate` names the missing part."""
    path = tmp_path / "run.json"
    with TrajectoryRecorder(path) as recorder:
        asyncio.run(ask(recorder, Wire(answer("words " * 50_000))))
    journal = path.with_suffix(".jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    third = [line for line in lines if b'"kind":"llm_stream"' in line][2]
    journal.write_bytes(b"".join(line for line in lines if line != third))

    assert load(journal).llm_interactions[0].raw_response is None
    assert "a part of its body is missing, or cannot be unpacked" in [
        finding.what for finding in validate(journal).findings
    ]


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
            goes_on.wait(30)
        return text

    async def run(recorder: TrajectoryRecorder) -> None:
        large = asyncio.create_task(ask(recorder, Wire(answer("never")), IMAGE))
        await asyncio.to_thread(masks.wait, 30)
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


MANY_STRINGS = {"role": "user", "content": [{"text": "small" * 9}] * 1000 + [{"image": IMAGE}]}
MANY_NUMBERS = {"role": "user", "content": [{"n": 1.5}] * 4000}


@pytest.mark.parametrize(
    ("message", "least"),
    [
        pytest.param(
            MANY_STRINGS, 3 * len(IMAGE) // (32 * 1024), id="each part of an image is decoded, checked, masked"
        ),
        pytest.param(MANY_NUMBERS, (4000 + 8000) // 64, id="many small values are searched for strings, and parsed"),
    ],
)
def test_others_can_record_at_every_step_of_a_large_request(tmp_path: Path, message: Payload, least: int) -> None:
    """The run's lock is free between the steps in which a large request is split, masked and encoded."""
    path = tmp_path / "run.json"
    steps: list[bool] = []
    goes_on = [True]

    def record(number: int) -> None:
        recorder.annotate(f"step {number}", number)

    def step() -> None:
        if goes_on:
            other = threading.Thread(target=record, args=(len(steps),), daemon=True)
            other.start()
            other.join(20)
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
    assert len(steps) >= least
    assert load(path).llm_interactions[0].raw_request["messages"] == [message]
    assert validate(path).findings == ()
