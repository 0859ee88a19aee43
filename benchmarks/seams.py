"""The cost of a call through the seam of each HTTP library, beside httpx's: ratios to the same calls unrecorded.

    python -m benchmarks.seams [CALLS] [ROUNDS]

The calls are a tiny chat call and a stream of 200 events, of Bedrock's Converse for boto3 and aiobotocore, by a client
that stays open, with a server in a separate process. In a round each library runs an unrecorded and a recorded lap in
turn. The figure is the CPU time of all threads of this process, which excludes waiting for the server. A library that
is not installed is left out.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.seams.frames import TYPE, frame
from trace_recorder import TrajectoryRecorder

Payload = Any
ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODIES = {"tiny": json.dumps(ASK).encode(), "stream": json.dumps({**ASK, "stream": True}).encode()}
HEADERS = {"content-type": "application/json"}
CONVERSE: dict[str, Payload] = {
    "modelId": "us.amazon.nova-pro-v1:0",
    "messages": [{"role": "user", "content": [{"text": "hello"}]}],
}
EVENTS = 200
Lap = Callable[[str, bytes, int, Callable[[Payload], object]], None]


def chunked(pieces: list[bytes]) -> bytes:
    """Return pieces as the chunks of an HTTP body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def serve(told: Connection) -> None:
    """Answer each request, with a stream if it asks for one, until this process is ended."""
    server = import_module("http.server")
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    whole = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()
    delta = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
    events = [f"data: {json.dumps(delta)}\n\n".encode()] * EVENTS + [b"data: [DONE]\n\n"]
    message = {"role": "assistant", "content": [{"text": "hi"}]}
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    converse = json.dumps({"output": {"message": message}, "stopReason": "end_turn", "usage": usage}).encode()
    frames = [
        frame("messageStart", {"role": "assistant"}),
        *[frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "word "}})] * EVENTS,
        frame("messageStop", {"stopReason": "end_turn"}),
    ]
    answers = {
        False: {False: ("application/json", whole), True: ("text/event-stream", chunked(events))},
        True: {False: ("application/json", converse), True: (TYPE["content-type"], chunked(frames))},
    }

    class Handler(server.BaseHTTPRequestHandler):  # type: ignore[name-defined,misc]
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            return

        def do_POST(self) -> None:  # noqa: N802 - the base class calls it
            body = self.rfile.read(int(self.headers["content-length"]))
            is_stream = b'"stream"' in body or self.path.endswith("-stream")
            media, data = answers["/converse" in self.path][is_stream]
            self.send_response(200)
            self.send_header("content-type", media)
            framing = ("transfer-encoding", "chunked") if is_stream else ("content-length", str(len(data)))
            self.send_header(*framing)
            self.end_headers()
            self.wfile.write(data)

    listener = server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.send(listener.server_port)
    listener.serve_forever()


@contextmanager
def serving() -> Iterator[str]:
    """Yield the server's URL."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1/chat/completions"
    finally:
        process.kill()
        process.join()


def by_httpx(library: str, url: str, body: bytes, calls: int, bind: Callable[[Payload], object]) -> None:
    """Call by httpx or httpx2."""
    with import_module(library).Client() as client:
        bind(client)
        for _ in range(calls):
            with client.stream("POST", url, content=body, headers=HEADERS) as response:
                for _ in response.iter_bytes():
                    pass


def by_requests(url: str, body: bytes, calls: int, bind: Callable[[Payload], object]) -> None:
    """Call by requests."""
    with import_module("requests").Session() as session:
        bind(session)
        for _ in range(calls):
            for _ in session.post(url, data=body, headers=HEADERS, stream=True).iter_content(None):
                pass


def by_urllib3(url: str, body: bytes, calls: int, bind: Callable[[Payload], object]) -> None:
    """Call by urllib3."""
    with import_module("urllib3").PoolManager() as manager:
        bind(manager)
        for _ in range(calls):
            response = manager.request("POST", url, body=body, headers=HEADERS, preload_content=False)
            for _ in response.stream():
                pass
            response.release_conn()


def by_aiohttp(url: str, body: bytes, calls: int, bind: Callable[[Payload], object]) -> None:
    """Call by aiohttp."""

    async def work() -> None:
        async with import_module("aiohttp").ClientSession() as session:
            bind(session)
            for _ in range(calls):
                async with session.post(url, data=body, headers=HEADERS) as response:
                    async for _ in response.content.iter_any():
                        pass

    asyncio.run(work())


def by_boto3(url: str, body: bytes, calls: int, bind: Callable[[Payload], object]) -> None:
    """Call Bedrock by boto3."""
    client = import_module("boto3").client("bedrock-runtime", **account(url))
    bind(client)
    for _ in range(calls):
        if body == BODIES["stream"]:
            for _ in client.converse_stream(**CONVERSE)["stream"]:
                pass
        else:
            client.converse(**CONVERSE)


def by_aiobotocore(url: str, body: bytes, calls: int, bind: Callable[[Payload], object]) -> None:
    """Call Bedrock by aiobotocore, which sends by aiohttp."""

    async def work() -> None:
        session = import_module("aiobotocore.session").get_session()
        async with session.create_client("bedrock-runtime", **account(url)) as client:
            bind(client)
            for _ in range(calls):
                if body == BODIES["stream"]:
                    async for _ in (await client.converse_stream(**CONVERSE))["stream"]:
                        pass
                else:
                    await client.converse(**CONVERSE)

    asyncio.run(work())


def account(url: str) -> dict[str, Payload]:
    """Return the arguments of a Bedrock client that uses the server."""
    host = url.removesuffix("/v1/chat/completions")
    keys = {"aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "aws_secret_access_key": "secret"}
    return {"endpoint_url": host, "region_name": "us-east-1", **keys}


def laps() -> dict[str, Lap]:
    """Return the calling function for each installed library."""
    named: dict[str, Lap] = {
        "httpx": lambda *lap: by_httpx("httpx", *lap),
        "httpx2": lambda *lap: by_httpx("httpx2", *lap),
        "aiohttp": by_aiohttp,
        "requests": by_requests,
        "urllib3": by_urllib3,
        "boto3": by_boto3,
        "aiobotocore": by_aiobotocore,
    }
    return {name: lap for name, lap in named.items() if find_spec(name)}


def seconds(lap: Lap, url: str, body: bytes, calls: int, *, recorded: bool) -> float:
    """Return the CPU time of a lap, including the end of the run if it is recorded."""
    with tempfile.TemporaryDirectory() as directory:
        began = time.process_time()
        if recorded:
            with TrajectoryRecorder(Path(directory, "a.json")) as recorder:
                lap(url, body, calls, recorder.wrap)
        else:
            lap(url, body, calls, lambda _: None)
        return time.process_time() - began


def main(calls: int = 100, rounds: int = 7) -> None:
    """Print the ratios, their spread over the rounds, and the additional milliseconds of a call."""
    print(f"{calls} calls a lap, {rounds} rounds; processor's time, recorded over unrecorded: median (least..most)")
    print("| library | call | ratio | +ms a call |\n|---|---|---|---|")
    with serving() as url:
        for work, body in BODIES.items():
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in laps()}
            for number in range(rounds + 1):
                for name, lap in laps().items():
                    pair = [seconds(lap, url, body, calls, recorded=recorded) for recorded in (False, True)]
                    if number:  # the first round also imports
                        times[name].append((pair[0], pair[1]))
            for name, pairs in times.items():
                ratios = sorted(after / before for before, after in pairs)
                more = statistics.median(after - before for before, after in pairs) / calls * 1000
                spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f})"
                print(f"| {name} | {work} | {spread} | {more:.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
