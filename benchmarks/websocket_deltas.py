"""What recording adds to a delta of 50 bytes over a websocket: CPU time beside the same program unrecorded, and memory.

    python -m benchmarks.websocket_deltas [deltas] [rounds]

A server in a process of its own sends the deltas of one response. Both variants run in turns, in one process. The
memory is the peak of a process that records 100,000 deltas in responses of 1,000, less that of one with 10,000.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import websockets.asyncio.client
import websockets.sync.client

from trace_recorder import TrajectoryRecorder, instrument, uninstrument

DELTA = b'{"type":"response.output_text.delta","delta":"abc"}'
LAST = json.dumps({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}})
CREATE = {"type": "response.create", "model": "m", "input": "hello"}
SERVER = """
import json, sys
from benchmarks.websocket_deltas import DELTA, LAST
from websockets.sync.server import serve

def handle(connection):
    for message in connection:
        connection.send(json.dumps({"type": "response.created", "response": {"id": "r", "output": []}}))
        for _ in range(json.loads(message)["max_output_tokens"]):
            connection.send(DELTA, text=True)
        connection.send(LAST)

with serve(handle, "127.0.0.1", 0, compression=None) as server:
    print(server.socket.getsockname()[1], flush=True)
    server.serve_forever()
"""
Program = Callable[[str, int], None]


def library(url: str, deltas: int) -> None:
    """Receive by the sync client of the library."""
    with websockets.sync.client.connect(f"ws{url[4:]}/responses", compression=None) as connection:
        connection.send(json.dumps({**CREATE, "max_output_tokens": deltas}))
        for _ in range(deltas + 2):
            connection.recv()


def library_in_loop(url: str, deltas: int) -> None:
    """Receive by the asyncio client of the library."""

    async def run() -> None:
        async with websockets.asyncio.client.connect(f"ws{url[4:]}/responses", compression=None) as connection:
            await connection.send(json.dumps({**CREATE, "max_output_tokens": deltas}))
            for _ in range(deltas + 2):
                await connection.recv()

    asyncio.run(run())


def sdk(url: str, deltas: int) -> None:
    """Receive events of the SDK by its sync client."""
    with openai.OpenAI(api_key="k", base_url=url) as client, client.responses.connect() as connection:
        connection.send({**CREATE, "max_output_tokens": deltas})  # type: ignore[arg-type, misc]
        for _ in range(deltas + 2):
            connection.recv()


PROGRAMS: dict[str, Program] = {"websockets, sync": library, "websockets, asyncio": library_in_loop, "openai": sdk}


def seconds(program: Program, url: str, deltas: int, place: Path | None) -> float:
    """Return the CPU seconds of a program, which is recorded if a place is given."""
    if place is None:
        began = time.process_time()
        program(url, deltas)
        return time.process_time() - began
    with TrajectoryRecorder(place / "run.json") as recorder:
        instrument(recorder=recorder)
        try:
            began = time.process_time()
            program(url, deltas)
            return time.process_time() - began
        finally:
            uninstrument()


def compare(url: str, deltas: int, rounds: int) -> None:
    """Print a row for each program."""
    print("| program | unrecorded, µs a delta | recorded | ratio: median (least to most) |\n|---|---|---|---|")
    for name, program in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as place:
            pairs = [
                (seconds(program, url, deltas, None), seconds(program, url, deltas, Path(place)))
                for _ in range(rounds + 1)
            ][1:]
        ratios = sorted(recorded / plain for plain, recorded in pairs)
        plain, recorded = [statistics.median(side) / deltas * 1e6 for side in zip(*pairs, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {name} | {plain:.1f} | {recorded:.1f} | {spread} |", flush=True)


MEMORY = """
import json, resource, sys, tempfile, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import websockets.sync.client
from benchmarks.websocket_deltas import CREATE
from trace_recorder import TrajectoryRecorder, instrument

with tempfile.TemporaryDirectory() as place, TrajectoryRecorder(Path(place) / "run.json") as recorder:
    instrument(recorder=recorder)
    with websockets.sync.client.connect(f"ws{sys.argv[1][4:]}/responses", compression=None) as connection:
        for _ in range(int(sys.argv[2])):
            connection.send(json.dumps({**CREATE, "max_output_tokens": 1000}))
            for _ in range(1002):
                connection.recv()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def print_memory(url: str) -> None:
    """Print how much more memory ten times as many deltas need."""
    peaks = []
    for responses in (10, 100):
        command = [sys.executable, "-c", MEMORY, url, str(responses)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024)
    print(f"peak with 10,000 deltas: {peaks[0]:.1f} MB; with 100,000: {peaks[1]:.1f} MB")


def main(arguments: list[str]) -> None:
    """Print the table and the memory."""
    warnings.simplefilter("ignore")
    deltas, rounds = [*map(int, arguments), *(20_000, 5)[len(arguments) :]]
    server: Any
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        try:
            compare(url, deltas, rounds)
            print_memory(url)
        finally:
            server.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
