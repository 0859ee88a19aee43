"""The time that the proxy adds to a call. `python -m benchmarks.proxying [ROUNDS]` prints a table.

One client makes the same calls directly, through the proxy, and through the proxy with recording turned off
(TRACE_RECORDER_DISABLED), which is a bare proxy on the same libraries. The rounds take turns, each with calls of all
three, so that what else the machine does meets them alike. Times are medians; the ratios are what counts.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import httpx

from benchmarks.server import ROOT, serving

TURNS = 20
KB = 1024
BODY = {
    "model": "m",
    "messages": [{"role": ("user", "assistant")[turn % 2], "content": f"{turn} " * KB} for turn in range(TURNS)],
}
CALLS = 20
"""Of each kind in a round."""


@dataclass
class Times:
    """Seconds of each call: to the first byte of a plain answer, of a stream, and from there to its last."""

    plain: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)


def main(rounds: int) -> None:
    """Measure, and print the table."""
    with ExitStack() as stack:
        upstream = stack.enter_context(serving())
        addresses = {
            "direct": upstream,
            "bare proxy": stack.enter_context(_proxy(upstream, {"TRACE_RECORDER_DISABLED": "1"})),
            "recording proxy": stack.enter_context(_proxy(upstream, {})),
        }
        clients = {name: stack.enter_context(httpx.Client(timeout=60)) for name in addresses}
        times = {name: Times() for name in addresses}
        for number in range(rounds + 1):
            for name, url in addresses.items():
                _round(clients[name], url, times[name] if number else Times())
    _print(times)


@contextmanager
def _proxy(upstream: str, environment: dict[str, str]) -> Iterator[str]:
    """Run a proxy in a process of its own; give the address that leads through it."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--upstream", f"bench={upstream}"]
        with subprocess.Popen(
            [*command, "--directory", directory],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            yield process.stdout.readline().split()[3].rstrip(",") + "/bench"
            process.send_signal(signal.SIGINT)
            process.communicate()


def _round(client: httpx.Client, url: str, times: Times) -> None:
    for _ in range(CALLS):
        began = time.perf_counter()
        client.post(f"{url}/v1/chat/completions", json=BODY)
        times.plain.append(time.perf_counter() - began)
    for _ in range(CALLS):
        began = time.perf_counter()
        with client.stream("POST", f"{url}/stream/v1/chat/completions", json={**BODY, "stream": True}) as response:
            chunks = response.iter_raw()
            next(chunks)
            first = time.perf_counter()
            for _ in chunks:
                pass
        times.first.append(first - began)
        times.rest.append(time.perf_counter() - first)


def _print(times: dict[str, Times]) -> None:
    print(f"{'':<18}{'answer':>12}{'ratio':>8}{'first byte':>13}{'ratio':>8}{'500 events':>13}{'ratio':>8}")
    bare = times["bare proxy"]
    for name, of in times.items():
        columns = []
        for kind in ("plain", "first", "rest"):
            value = statistics.median(getattr(of, kind))
            columns.append(f"{value * 1000:>9.2f} ms{value / statistics.median(getattr(bare, kind)):>8.2f}")
        print(f"{name:<18}{' '.join(columns)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
