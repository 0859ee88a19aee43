"""Measure the cost of a live exporter for the agent, compared to recording alone: `python -m benchmarks.exporting`.

Tiny calls over a mock transport are recorded without an exporter, and with exporters to an endpoint that answers, an
endpoint that is down, one that takes two seconds for a request, and one that is full.

The first figure is free of noise: how many functions, Python's and C's, the agent's thread calls for a recorded call.
The other figures are ratios, which other work on the machine affects: the laps take turns, and a figure is the median
of the ratios to the lap without an exporter in the same round. CPU is that of the agent's thread. The last column is
how long the end of the run took.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.reading_runs import COMPLETION, URL
from trace_recorder import TrajectoryRecorder, http_client, otlp

Lap = tuple[float, float, float, float]
"""Seconds of all calls, of the CPU of the agent's thread, of the slowest call, and of the end of the run."""


class Endpoint(BaseHTTPRequestHandler):
    """Answers with the status and after the seconds in its path: /200/2."""

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        _, status, seconds = self.path.split("/")
        time.sleep(float(seconds))
        self.send_response(int(status))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


def lap(path: Path, calls: int, pause: float, endpoint: str | None) -> Lap:
    """Record calls, with a pause after each as for an agent's tools. The pauses are not counted."""
    recorder, transport = _started(path, endpoint)
    took, cpu = [], time.thread_time()
    with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
        for turn in range(calls):
            began = time.perf_counter()
            _call(client, turn)
            took.append(time.perf_counter() - began)
            time.sleep(pause)
    cpu = time.thread_time() - cpu
    began = time.perf_counter()
    recorder.finalize()
    return sum(took), cpu, max(took), time.perf_counter() - began


def _started(path: Path, endpoint: str | None) -> tuple[TrajectoryRecorder, Any]:
    """Start a recorder. Return it with a transport that answers at once."""
    import httpx  # noqa: PLC0415 - only recording needs it

    exporters = [otlp(endpoint, flush_seconds=1.0)] if endpoint else []
    recorder = TrajectoryRecorder(path, exporters=exporters)
    recorder.start()
    return recorder, httpx.MockTransport(lambda _: httpx.Response(200, json={**COMPLETION, "choices": []}))


def _call(client: Any, turn: int) -> None:
    client.post(URL, json={"model": "m", "messages": [{"role": "user", "content": f"{turn}"}]})


def function_calls(path: Path, calls: int, endpoint: str | None) -> int:
    """Return how many functions the agent's thread calls for a recorded call: the median of several calls."""
    recorder, transport = _started(path, endpoint)
    counted: list[int] = []
    with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
        for turn in range(calls):
            seen: Counter[str] = Counter()
            sys.setprofile(lambda _, event, __, seen=seen: seen.update((event,)))
            try:
                _call(client, turn)
            finally:
                sys.setprofile(None)
            counted.append(seen["call"] + seen["c_call"])
            time.sleep(0.005)
    recorder.finalize()
    return int(statistics.median(counted))


def main() -> None:
    """Print a line for each kind of endpoint."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exporting")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between two calls (0.002)")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    there = f"http://127.0.0.1:{server.server_address[1]}"
    kinds = {
        "no exporter": None,
        "no exporter again": None,
        "answers": f"{there}/200/0",
        "down": "http://127.0.0.1:9/v1/traces",
        "takes 2 s": f"{there}/200/2",
        "full (429)": f"{there}/429/0",
    }
    rounds: list[dict[str, Lap]] = []
    with tempfile.TemporaryDirectory() as directory:
        counts = {kind: function_calls(Path(directory, f"{kind}.json"), 100, kinds[kind]) for kind in kinds}
        for number in range(options.rounds):
            rounds.append({})
            for kind in [*kinds][number % len(kinds) :] + [*kinds][: number % len(kinds)]:
                path = Path(directory, f"{number}{kind}.json")
                rounds[-1][kind] = lap(path, options.calls, options.pause, kinds[kind])
    print(f"{options.calls} tiny calls, {options.pause * 1000:g} ms apart, {options.rounds} rounds\n")
    print(f"{'endpoint':20}{'functions':>10}{'calls':>8}{'CPU':>8}{'slowest call':>15}{'end of the run':>17}")
    for kind in kinds:
        print(_line(kind, counts[kind], [(one[kind], one["no exporter"]) for one in rounds]))


def _line(kind: str, functions: int, laps: Sequence[tuple[Lap, Lap]]) -> str:
    calls, cpu = (statistics.median(own[at] / base[at] for own, base in laps) for at in (0, 1))
    slowest, end = (statistics.median(own[at] for own, _ in laps) for at in (2, 3))
    return f"{kind:20}{functions:10}{calls:8.3f}{cpu:8.3f}{slowest * 1000:12.1f} ms{end:15.2f} s"


if __name__ == "__main__":
    main()
