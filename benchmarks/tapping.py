"""The time that the tap adds to a call of an MCP server. `python -m benchmarks.tapping [ROUNDS]` prints a table.

One client makes the same calls of the same server over a pipe, through a relay that records nothing, through the tap
with a run of its own, and through the tap under `trace-recorder proxy`. The contenders take turns with each call. Times
are medians from the request's write to the answer's last byte, and only the ratios are compared. The answers are a
number, and source code of 4 KB and of 1 MB.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from benchmarks.real_texts import code
from benchmarks.server import ROOT, serving
from trace_recorder.capture.proxy_header import PROXY_VARIABLE

CALLS = 20
"""How many calls of each kind there are in a round."""
KINDS = {"number": 0, "4 KB": 4_000, "1 MB": 1_000_000}
SERVER = """
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
for line in sys.stdin:
    message = json.loads(line)
    size = message["params"]["arguments"]["size"]
    content = [{"type": "text", "text": text[:size] or "3"}]
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}) + "\\n")
    sys.stdout.flush()
"""
BARE = """
import os, sys
from trace_recorder.mcp_tap.relay import relay
sys.exit(relay(sys.argv[1:], os.environ, lambda *_: None))
"""


class Contender:
    """A way to the server. `seconds` has what was measured, by the kind of the answer."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self._process = process
        self._id = 0

    def call(self, kind: str) -> None:
        """Make a call, and measure it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._id += 1
        parameters = {"name": "read", "arguments": {"size": KINDS[kind]}}
        request = {"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": parameters}
        began = time.monotonic()
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        self.seconds[kind].append(time.monotonic() - began)
        assert len(answer) > KINDS[kind]


@contextmanager
def _running(command: Sequence[str], place: Path, variables: Mapping[str, str] = {}) -> Iterator[Contender]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with subprocess.Popen(
        command, cwd=place, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Contender(process)


@contextmanager
def _proxy(place: Path) -> Iterator[str]:
    """Run a proxy with an open session, and yield its address."""
    command = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--directory", str(place / "proxy")]
    with serving() as upstream:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [*command, "--upstream", f"bench={upstream}"], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3].rstrip(",")
            body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
            httpx.post(f"{url}/bench/v1/chat/completions", json=body).raise_for_status()
            yield url
            process.send_signal(signal.SIGINT)
            process.communicate()


def main(rounds: int) -> None:
    """Measure, and print the table."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        place = Path(directory)
        (place / "text").write_text(code(max(KINDS.values()) + 1), encoding="utf-8")
        server = [sys.executable, "-I", "-S", "-c", SERVER, str(place / "text")]
        tap = [sys.executable, "-m", "trace_recorder", "mcp-tap", "--", *server]
        proxy = {PROXY_VARIABLE: stack.enter_context(_proxy(place))}
        contenders = {
            "pipe": stack.enter_context(_running(server, place)),
            "bare relay": stack.enter_context(_running([sys.executable, "-c", BARE, *server], place)),
            "tap": stack.enter_context(_running(tap, place)),
            "tap and proxy": stack.enter_context(_running(tap, place, proxy)),
        }
        for number in range(rounds + 1):
            for kind in [*KINDS] * CALLS:
                for contender in contenders.values():
                    contender.call(kind)
            if number == 0:  # the first calls import, connect and compile
                for contender in contenders.values():
                    for seconds in contender.seconds.values():
                        seconds.clear()
    _print(contenders)


def _print(contenders: Mapping[str, Contender]) -> None:
    print(f"{'':<16}" + "".join(f"{kind:>13}{'ratio':>8}" for kind in KINDS))
    bare = contenders["bare relay"]
    for name, contender in contenders.items():
        line = f"{name:<16}"
        for kind in KINDS:
            value, base = (statistics.median(way.seconds[kind]) for way in (contender, bare))
            line += f"{value * 1000:>10.2f} ms{value / base:>8.2f}"
        print(line)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
