"""The cost of a replayed call, as a ratio to the same SDK call over a mock transport with the same answer.

    python -m benchmarks.replays    # [--laps 7] [--quick]

Both are measured in one process, in laps that take turns. Opening the run is not part of a lap, and has its own column.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.real_texts import tool_result

ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}
CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}],
}


@dataclass(frozen=True)
class Workload:
    """Calls of a run: their number, and the bytes that each adds to the history, or streams of this many chunks."""

    title: str
    calls: int
    bytes_a_turn: int = 0
    chunks: int = 0

    def messages(self) -> Iterator[list[dict[str, str]]]:
        """Return the messages of each call."""
        history: list[dict[str, str]] = []
        for number in range(self.calls):
            if not self.bytes_a_turn:
                history = []
            history.append({"role": "user", "content": f"turn {number} {tool_result(number, self.bytes_a_turn)}"})
            yield history


WORKLOADS = (
    Workload("200 tiny calls", 200),
    Workload("50 turns of 4 KB", 50, bytes_a_turn=4096),
    Workload("200 turns of 4 KB", 200, bytes_a_turn=4096),
    Workload("10 streams of 500 chunks", 10, chunks=500),
)


@dataclass(frozen=True)
class Lap:
    """Seconds by the clock, of CPU, and until the run was open."""

    wall: float
    cpu: float
    opening: float


class Answering:
    """Creates clients of the real SDK whose transport gives every request the same answer, without a network."""

    def __init__(self, workload: Workload) -> None:
        self._library = import_module("trace_recorder.capture.sdk_clients").newest_library()
        self._httpx = import_module(self._library)
        events = [b"data: " + json.dumps(CHUNK).encode() + b"\n\n"] * workload.chunks + [b"data: [DONE]\n\n"]
        self._pieces = events if workload.chunks else [json.dumps(ANSWER).encode()]
        self._media = "text/event-stream" if workload.chunks else "application/json"

    def _answer(self, request: Any) -> Any:
        return self._httpx.Response(200, headers={"content-type": self._media}, content=iter(self._pieces))

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Create a client."""
        transport = self._httpx.MockTransport(self._answer)
        make = import_module("openai").OpenAI
        with self._httpx.Client(transport=transport) as inside, make(api_key="k", http_client=inside) as client:
            yield client


def converse(client: Any, workload: Workload) -> None:
    """Make all calls, and read their answers."""
    for messages in workload.messages():
        answer = client.chat.completions.create(model="m", messages=messages, stream=bool(workload.chunks))
        for _ in answer if workload.chunks else ():
            pass


def measured(act: Callable[[], None], opening: float = 0.0) -> Lap:
    """Return the time of an act."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return Lap(time.perf_counter() - wall, time.process_time() - cpu, opening)


def mocked(workload: Workload) -> Lap:
    """Run a lap over the mock transport."""
    with Answering(workload).client() as client:
        return measured(lambda: converse(client, workload))


def replayed(workload: Workload, path: Path) -> Lap:
    """Run a lap over the replay."""
    began = time.perf_counter()
    run = import_module("trace_recorder").replay(path)
    opening = time.perf_counter() - began
    with run, Answering(workload).client() as client:
        run.wrap(client)
        return measured(lambda: converse(client, workload), opening)


def line(workload: Workload, laps: int) -> str:
    """Record the workload, take turns, and return the line of results."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.json"
        recorder_class = import_module("trace_recorder").TrajectoryRecorder
        with recorder_class(path) as recorder, Answering(workload).client() as client:
            converse(recorder.wrap(client), workload)
        mocked(workload), replayed(workload, path)  # imports and caches of the first call are not measured
        pairs = [(mocked(workload), replayed(workload, path)) for _ in range(laps)]
        control = [mocked(workload).cpu / mocked(workload).cpu for _ in range(laps)]
    clock, cpu = ([getattr(ours, what) / getattr(base, what) for base, ours in pairs] for what in ("wall", "cpu"))
    added = statistics.median((ours.cpu - base.cpu) / workload.calls * 1e3 for base, ours in pairs)
    opening = statistics.median(ours.opening for _, ours in pairs) * 1e3
    return f"{workload.title:26}{_figure(clock)}{_figure(cpu)}{_figure(control)}{added:14.3f}{opening:12.1f}"


def _figure(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):8.2f} ({min(ratios):.2f}..{max(ratios):.2f})"


def main() -> None:
    """Measure each workload and print its line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replays", description="What a replayed call costs.")
    parser.add_argument("--laps", type=int, default=7, help="of each workload (7)")
    parser.add_argument("--quick", action="store_true", help="one lap of tiny calls alone")
    options = parser.parse_args()
    head = f"{'replay / mock transport':26}{'clock':>21}{'CPU':>21}{'control, CPU':>21}{'+ms CPU a call':>15}"
    print(head + f"{'open, ms':>11}")
    for workload in WORKLOADS[:1] if options.quick else WORKLOADS:
        print(line(workload, 1 if options.quick else options.laps))


if __name__ == "__main__":
    main()
