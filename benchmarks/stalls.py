"""How long recording blocks an event loop: `python -m benchmarks.stalls`.

A task that only sleeps notes how late it is woken during a call with much content. The figure is the largest delay for
each kind of call, unrecorded and recorded in turn, each in a process of its own. The calls are made by the OpenAI SDK,
which parses its answers in the loop: a recorded call may hold the loop for twice as long as the SDK does, or for 2 ms.
The server is a separate process.

Delays are measured by the clock, and by this process's CPU time meanwhile, which other work on the machine hardly
changes. Two further figures are the longest pieces of work in CPU time of their thread: in the loop's own thread
between two returns to the loop, and in the recorder's threads between two pauses. The last column says how much longer
the caller waits for the recorded call, compared with `json.loads` of its large body.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from benchmarks.measuring import peak_memory, sizes
from benchmarks.real_texts import code, embedding, image
from trace_recorder import TrajectoryRecorder
from trace_recorder.background_work import run_yielding

ROOT = Path(__file__).resolve().parent.parent
MB = 1_000_000
MS = 1e-3
DIMENSIONS = 1536


def _plain(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()


def _embeddings(size: int) -> bytes:
    numbers = embedding(size // 22)
    vectors = [numbers[at : at + DIMENSIONS] for at in range(0, len(numbers), DIMENSIONS)]
    data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(vectors)]
    return json.dumps({"object": "list", "data": data, "model": "m"}).encode()


def _stream(size: int) -> bytes:
    events: list[bytes] = []
    words = code(size).split(" ")
    number = done = 0
    while done < size:
        delta = {"content": f"{words[number % len(words)]} "}
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        event = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        events.append(b"data: %s\n\n" % json.dumps(event).encode())
        done += len(events[-1])
        number += 1
    last = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    }
    return b"".join([*events, b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(last).encode()])


MAKERS = {
    "code": lambda size: _plain(code(size)),
    "image": lambda size: _plain(image(size)),
    "embeddings": _embeddings,
    "stream": _stream,
}
"""The bodies of the server's answers. A request selects one by `/kind/size/v1/…`."""


@cache
def _body_of(kind: str, size: int) -> bytes:
    return MAKERS[kind](size)


def _answer(path: str) -> bytes:
    _, kind, size, _ = path.split("/", 3)
    body = _body_of(kind, int(size))
    media = "text/event-stream" if kind == "stream" else "application/json"
    return f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def _serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        length = 0
        while (header := await reader.readline()) not in {b"\r\n", b""}:
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        await reader.readexactly(length)
        writer.write(_answer(line.split(b" ")[1].decode()))
        await writer.drain()
    writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_serve_one, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def _serving() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.stalls", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()


@dataclass(frozen=True)
class Case:
    """A kind of call: its request, and the server's answer."""

    says: str
    kind: str
    size: int
    asked: int = 0
    """How many bytes an image in the request has."""
    asked_text: int = 0
    """How many characters of source code are in the request."""


CASES = {
    "small": Case("an answer of 1 KB", "code", 1_000),
    "plain-64k": Case("an answer of 60 KB", "code", 60_000),
    "plain-1m": Case("an answer of 1 MB", "code", MB),
    "image-2m": Case("an image of 2 MB in an answer", "image", 2 * MB),
    "embeddings": Case("an answer with 5 MB of embeddings", "embeddings", 5 * MB),
    "plain-30m": Case("an answer of 30 MB", "code", 30 * MB),
    "asked-1m": Case("an image of 1 MB in the request", "code", 1_000, MB),
    "asked-code": Case("4 MB of code in the request", "code", 1_000, asked_text=4 * MB),
    "asked-5m": Case("an image of 5 MB in the request", "code", 1_000, 5 * MB),
    "stream-1m": Case("a stream of 1 MB", "stream", MB),
    "stream-10m": Case("a stream of 10 MB", "stream", 10 * MB),
}


@dataclass(frozen=True, slots=True)
class Gap:
    """How late the task was woken, by the clock and by this process's CPU time."""

    clock: float = 0.0
    cpu: float = 0.0


@asynccontextmanager
async def _heartbeat(late: list[Gap]) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            began, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(MS)
            gap = time.perf_counter() - began - MS
            late.append(Gap(gap, min(gap, time.process_time() - worked)))

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0.02)
    late.clear()
    yield
    await asyncio.sleep(0.002)
    beating.cancel()


@contextmanager
def _pieces(seconds: list[float]) -> Iterator[None]:
    """Note how much CPU time of the loop's thread each callback of the loop takes."""
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        seconds.append(time.thread_time() - began)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


@contextmanager
def _background_pieces(lengths: list[float]) -> Iterator[None]:
    """Note how much CPU time the recorder's threads take between two pauses, including the first pause."""
    last = threading.local()
    before = run_yielding.__defaults__

    def pause(seconds: float) -> None:
        lengths.append(time.thread_time() - getattr(last, "paused", 0.0))
        time.sleep(seconds)
        last.paused = time.thread_time()

    run_yielding.__defaults__ = (*(before or ())[:-1], pause)
    try:
        yield
    finally:
        run_yielding.__defaults__ = before


async def _call(client: AsyncOpenAI, case: Case, rest: float) -> dict[str, float]:
    """Make a call. Return the largest gaps during the call, and in the `rest` after it, when a document may be
    written.
    """
    late: list[Gap] = []
    pieces: list[float] = []
    background = [0.0]
    arguments = _arguments(case)
    async with _heartbeat(late):
        began = time.perf_counter()
        with _pieces(pieces), _background_pieces(background):
            await _ask(client, case, arguments)
            took = time.perf_counter() - began
            during = len(late) + 1
            await asyncio.sleep(rest)
    gaps = {"stall": late[:during], "after": late[during:]}
    found = {name: max((gap.clock for gap in some), default=0.0) for name, some in gaps.items()}
    found |= {f"{name}_cpu": max((gap.cpu for gap in some), default=0.0) for name, some in gaps.items()}
    return found | {"piece": max(pieces), "background": max(background), "wall": took}


def _arguments(case: Case) -> dict[str, Any]:
    if case.kind == "embeddings":
        return {"input": "What is this?", "encoding_format": "float"}
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image(case.asked)}"}}
    texts = {"type": "text", "text": code(case.asked_text) or "What is this?"}
    content = [texts, picture] if case.asked else [texts]
    return {"messages": [{"role": "user", "content": content}]}


async def _ask(client: AsyncOpenAI, case: Case, arguments: dict[str, Any]) -> None:
    if case.kind == "embeddings":
        await client.embeddings.create(model="m", **arguments)
    elif case.kind == "stream":
        async for _ in await client.chat.completions.create(model="m", stream=True, **arguments):
            pass
    else:
        await client.chat.completions.create(model="m", **arguments)


def _parsing(case: Case) -> float:
    """Return the seconds that `json.loads` takes for the larger body of the call."""
    request = json.dumps(_arguments(case)).encode()
    answer = _body_of(case.kind, case.size)
    larger = max(request, b"{}" if case.kind == "stream" else answer, key=len)
    times: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        json.loads(larger)
        times.append(time.perf_counter() - began)
    return min(times)


async def _measure(case: Case, base: str, *, recorded: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        recorder = TrajectoryRecorder(directory=Path(directory) / "runs", task="stalls")
        async with AsyncOpenAI(
            api_key="sk-bench", base_url=f"{base}/code/100/v1", timeout=120, max_retries=0
        ) as client:
            if recorded:
                recorder.start()
                recorder.wrap(client)
            await _ask(client, CASES["small"], _arguments(CASES["small"]))
            figures = await _call(
                client.copy(base_url=f"{base}/{case.kind}/{case.size}/v1"), case, 1.0 + case.size / MB / 10
            )
        if recorded:
            recorder.finalize(success=True)
        return figures | sizes(Path(directory)) | {"peak": peak_memory(), "parsing": _parsing(case)}


def _in_a_process(name: str, url: str, *, recorded: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.stalls", "--measure", name, url, "recorded" if recorded else ""]
    found: dict[str, float] = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return found


def _table(names: list[str], rounds: int) -> Iterator[str]:
    columns = "largest gap, ms", "of CPU", "after it", "of CPU", "in the loop's thread", "in others", "the call, ms"
    yield f"| call | | {' | '.join(columns)} | peak MB | journal KB | waits, of `json.loads` |"
    yield f"|---|---|{'---:|' * (len(columns) + 3)}"
    with _serving() as url:
        for name in names:
            laps = [[_in_a_process(name, url, recorded=one) for one in (False, True)] for _ in range(rounds)]
            for says, own in zip(("unrecorded", "recorded"), zip(*laps, strict=True), strict=True):
                waits = _waits(laps) if says == "recorded" else ""
                yield f"| {CASES[name].says} | {says} | {' | '.join(_figures(own))} | {waits} |"


def _waits(laps: list[list[dict[str, float]]]) -> str:
    """Return how much longer a recorded call takes, compared with `json.loads` of its large body."""
    unrecorded, recorded = (min(lap[number]["wall"] for lap in laps) for number in (0, 1))
    parsing = min(lap["parsing"] for pair in laps for lap in pair)
    return f"{(recorded - unrecorded) / parsing:.1f}"


def _figures(laps: tuple[dict[str, float], ...]) -> Iterator[str]:
    times = "stall", "stall_cpu", "after", "after_cpu", "piece", "background", "wall"
    for name, unit in (*((name, MS) for name in times), ("peak", MB), ("journal", 1000)):
        yield f"{min(lap.get(name, 0.0) for lap in laps) / unit:.1f}"


def main() -> None:
    """Print the table: the smallest value over rounds of each figure, because other work on the machine only adds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES), help=f"some of {','.join(CASES)}")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve())
    elif options.measure:
        name, url, recorded = options.measure
        print(json.dumps(asyncio.run(_measure(CASES[name], url, recorded=bool(recorded)))))
    else:
        for line in _table(options.cases.split(","), options.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
