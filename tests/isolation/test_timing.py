"""A chunk reaches the caller as soon as it comes.

The tests need no clock: the server sends a chunk only when the caller has the one before.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import openai
import pytest

from tests.chat_calls import run_of
from tests.counting import watch
from tests.faults.unlucky import limit
from tests.isolation.hooks import Hook, fail, failing, together
from tests.limits import limited
from tests.provider import Answer, chat_chunk, serving
from trace_recorder import TrajectoryRecorder, load
from trace_recorder.capture import exchange
from trace_recorder.capture.received_response import ReceivedResponse
from trace_recorder.facts import LLMStreamFact
from trace_recorder.recording.run import Run
from trace_recorder.storage.journal import Journal

Payload = Any
PIECES = 5
PATIENCE = 120.0
"""After this many seconds the server decides that the caller did not get its chunk."""


class Patient:
    """The chunks of a server that sends a chunk only when the caller has the one before."""

    def __init__(self) -> None:
        self.heard = threading.Semaphore(0)
        self.stalled = False

    def __iter__(self) -> Iterator[object]:
        for number in range(PIECES):
            yield chat_chunk(str(number))
            self.stalled |= not self.heard.acquire(timeout=PATIENCE)
        yield b"data: [DONE]\n\n"


def read(url: str, recorder: TrajectoryRecorder, heard: Callable[[], None]) -> None:
    """Read a stream, and tell the server about each chunk that has arrived."""
    with recorder.wrap(openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)) as client:
        for _ in client.chat.completions.create(model="m", messages=[], stream=True):
            heard()


def read_async(url: str, recorder: TrajectoryRecorder, heard: Callable[[], None]) -> None:
    """Read a stream on asyncio in the same way."""

    async def work() -> None:
        async with recorder.wrap(openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)) as client:
            async for _ in await client.chat.completions.create(model="m", messages=[], stream=True):
                heard()

    asyncio.run(work())


CONDITIONS = {
    "as ever": Hook(together()),
    "flushing each chunk": Hook(together(), flush_bytes=1),
    "flushes fail": Hook(failing(ReceivedResponse, "_flush_stream"), flush_bytes=1),
    "the disk is full": Hook(failing(Journal, "append_all"), flush_bytes=1),
    "nothing can be decoded": Hook(failing(exchange, "body_decoder", lambda *_: fail)),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("caller", [read, read_async])
def test_a_chunk_is_passed_on_when_it_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str, caller: Callable[..., None]
) -> None:
    """The caller has each chunk before the server sends the next, even if the chunk cannot be recorded."""
    patient = Patient()
    headers = {"content-type": "text/event-stream", "content-encoding": "identity"}
    answer = Answer(patient, 200, headers)  # type: ignore[arg-type]
    with serving(answer) as server, CONDITIONS[condition].recorder(tmp_path / "run.json") as recorder:
        with monkeypatch.context() as patch:
            CONDITIONS[condition].breaks(patch)
            caller(server.url, recorder, patient.heard.release)

    assert not patient.stalled


def test_a_refused_write_is_not_repeated_for_every_chunk(tmp_path: Path) -> None:
    """On a full disk, a long stream makes few attempts to write, each after twice as many bytes, and is whole if the
    disk has space again.
    """
    tries: list[int] = []
    lines = [b"data: " + json.dumps({"choices": [], "n": number}).encode() + b"\n\n" for number in range(1000)]
    recorder = limited(flush_bytes=64, flush_seconds=1000.0)(tmp_path / "run.json")
    full_disk = ExitStack()

    def answer(_: httpx2.Request) -> httpx2.Response:
        full_disk.enter_context(limit(resource.RLIMIT_FSIZE, (tmp_path / "run.jsonl").stat().st_size))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter(lines))

    def look(frame: FrameType) -> None:
        if frame.f_code is Run.append.__code__ and isinstance(fact := frame.f_locals["fact"], LLMStreamFact):
            tries.append(fact.bytes)
            if len(tries) == 8:
                full_disk.close()

    def record() -> None:
        with full_disk, recorder, recorder.wrap(httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
            client.post("http://provider.test/v1/chat/completions", json={"model": "m", "stream": True})

    watch(record, look)

    [one] = load(recorder.trajectory_path).llm_interactions
    assert one.raw_stream == b"".join(lines).decode()
    assert all(later >= 2 * earlier for earlier, later in pairwise(tries[:8]))


def test_a_chunk_waits_for_no_thread(tmp_path: Path) -> None:
    """While another thread writes the received part of a stream, the caller gets the next chunks, without a loss."""
    lines = [b'data: {"choices":[],"n":%d}\n\n' % number for number in range(10)]
    held, read = threading.Event(), threading.Event()
    responses: list[ReceivedResponse] = []
    threads: list[threading.Thread] = []

    def hold() -> None:
        with responses[0].lock:
            held.set()
            read.wait(PATIENCE)

    def body() -> Iterator[bytes]:
        responses.extend(one for one in gc.get_objects() if isinstance(one, ReceivedResponse) and not one.done)
        threads.append(threading.Thread(target=hold))
        threads[0].start()
        held.wait(PATIENCE)
        yield from lines
        in_time.append(threads[0].is_alive())
        read.set()

    in_time: list[bool] = []

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    with limited(flush_seconds=1000.0)(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
            client.post("http://provider.test/v1/chat/completions", json={"model": "m", "stream": True})
    threads[0].join()

    [one] = load(recorder.trajectory_path).llm_interactions
    assert (in_time, one.raw_stream) == ([True], b"".join(lines).decode())


def test_the_end_of_a_run_waits_for_a_response(tmp_path: Path) -> None:
    """If another thread finalizes the run at the end of a stream, the stream's response is recorded before the end of
    the run.
    """

    def slow(text: str) -> str:
        if text == last and finalizing.ident is None:
            finalizing.start()
            finalizing.join(0.3)  # the thread waits here; without the wait it would have ended by now
        return text

    last = "data: [DONE]"  # an incomplete line, which is written only when the response ends

    recorder = limited(lock_timeout_seconds=60.0)(tmp_path / "run.json", redact=slow)
    recorder.start()
    finalizing = threading.Thread(target=recorder.finalize)

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter([last.encode()]))

    with recorder.wrap(httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        client.post("http://provider.test/v1/chat/completions", json={"model": "m", "stream": True})
    finalizing.join()

    trajectory = load(recorder.trajectory_path)
    assert ([call.complete for call in trajectory.llm_interactions], trajectory.gaps) == ([True], ())


def test_a_finished_stream_s_text_is_not_kept(tmp_path: Path) -> None:
    """A response that the caller keeps after its stream has ended does not keep the recorded text in memory."""
    lines = [b'data: {"choices":[]}\n\n'] * 10

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter(lines))

    with TrajectoryRecorder(tmp_path / "run.json") as recorder:
        with recorder.wrap(httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
            response = client.post("http://provider.test/v1/chat/completions", json={"model": "m", "stream": True})
        run = run_of(recorder)
    kept = [one for one in gc.get_objects() if isinstance(one, ReceivedResponse) and one.run is run]

    assert response.content == b"".join(lines)
    assert [(one.buffer, one.written) for one in kept] == [([], [])]


def test_the_loop_runs_while_a_model_answers(tmp_path: Path) -> None:
    """The caller's other tasks run between the chunks of a stream, because recording does not block the event loop."""
    patient = Patient()

    async def work(url: str, recorder: TrajectoryRecorder) -> None:
        async def release() -> None:
            while True:
                await asyncio.sleep(0.005)
                patient.heard.release()

        releasing = asyncio.create_task(release())
        async with recorder.wrap(openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")) as client:
            async for _ in await client.chat.completions.create(model="m", messages=[], stream=True):
                pass
        releasing.cancel()

    answer = Answer(patient, 200, {"content-type": "text/event-stream"})  # type: ignore[arg-type]
    with serving(answer) as server, TrajectoryRecorder(tmp_path / "run.json", strict=True) as recorder:
        asyncio.run(work(server.url, recorder))

    assert not patient.stalled
