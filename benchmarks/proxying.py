"""The time that the proxy adds to a call. `python -m benchmarks.proxying [ROUNDS]` prints a table.

One client makes the same calls directly, through the proxy, and through the proxy with recording turned off
(TRACE_RECORDER_DISABLED), which is a bare proxy on the same libraries. LiteLLM's proxy and claude-tap take part if
their commands, `litellm` and `claude-tap`, are on the PATH. The rounds take turns, each with calls of all, so that what
else the machine does meets them alike. Times are medians; the ratios are what counts. CPU is that of a proxy's process
for each call and stream, where `/proc` tells it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

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


START_SECONDS = 120
_OF_LITELLM = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
"""Without these it fetches prices, and does not start without a key."""


@dataclass
class Contender:
    """A way to the server: the addresses of a plain answer and of a stream, and the process on the way, if any.

    `stream_model` is the model by which LiteLLM's proxy tells the two apart. The times are seconds of each call: to the
    first byte of a plain answer, of a stream, and from there to its last. `cpu` is the process's, a round.
    """

    plain_url: str
    stream_url: str
    pid: int | None = None
    stream_model: str = "m"
    plain: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @classmethod
    def at(cls, url: str, pid: int | None = None) -> Contender:
        """Return one whose addresses are the server's, behind another beginning."""
        return cls(f"{url}/v1/chat/completions", f"{url}/stream/v1/chat/completions", pid)


def main(rounds: int) -> None:
    """Measure, and print the table."""
    with ExitStack() as stack:
        upstream = stack.enter_context(serving())
        contenders = {
            "direct": Contender.at(upstream),
            "bare proxy": stack.enter_context(_proxy(upstream, {"TRACE_RECORDER_DISABLED": "1"})),
            "recording proxy": stack.enter_context(_proxy(upstream, {})),
        }
        for name, peer in {"claude-tap": _claude_tap, "litellm": _litellm}.items():
            if shutil.which(name):
                contenders[name] = stack.enter_context(peer(upstream))
        clients = {name: stack.enter_context(httpx.Client(timeout=60)) for name in contenders}
        for number in range(rounds + 1):
            for name, contender in contenders.items():
                _round(clients[name], contender)
                if number == 0:
                    for times in (contender.plain, contender.first, contender.rest, contender.cpu):
                        times.clear()
    _print(contenders)


@contextmanager
def _proxy(upstream: str, environment: dict[str, str]) -> Iterator[Contender]:
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
            yield Contender.at(process.stdout.readline().split()[3].rstrip(",") + "/bench", process.pid)
            process.send_signal(signal.SIGINT)
            process.communicate()


@contextmanager
def _claude_tap(upstream: str) -> Iterator[Contender]:
    with _peer("claude-tap", "--tap-no-launch", "--tap-no-live", "--tap-no-open", "--tap-client", "codex",
               "--tap-host", "127.0.0.1", "--tap-allow-path", "/v1", "--tap-allow-path", "/stream",
               "--tap-target", upstream, port_option="--tap-port") as (url, pid):  # fmt: skip
        yield Contender.at(url, pid)


@contextmanager
def _litellm(upstream: str) -> Iterator[Contender]:
    with tempfile.TemporaryDirectory() as directory:
        entries = (
            f"- model_name: {name}\n"
            f"  litellm_params: {{model: openai/m, api_key: k, api_base: '{upstream}{path}/v1'}}\n"
            for name, path in (("m", ""), ("stream", "/stream"))
        )
        config = Path(directory, "config.yaml")
        config.write_text("model_list:\n" + "".join(entries))
        with _peer("litellm", "--config", str(config), "--host", "127.0.0.1", port_option="--port") as (url, pid):
            yield Contender(f"{url}/v1/chat/completions", f"{url}/v1/chat/completions", pid, "stream")


@contextmanager
def _peer(*command: str, port_option: str) -> Iterator[tuple[str, int]]:
    """Run a peer at a free port until the block ends; give its address and its process when it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        tempfile.TemporaryDirectory() as home,
        subprocess.Popen(
            [*command, port_option, str(port)],
            cwd=home,
            env={**os.environ, **_OF_LITELLM, "HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"{process.args} does not listen at {port}")


def _round(client: httpx.Client, contender: Contender) -> None:
    cpu = _cpu_seconds(contender.pid)
    for _ in range(CALLS):
        began = time.perf_counter()
        client.post(contender.plain_url, json=BODY).raise_for_status()
        contender.plain.append(time.perf_counter() - began)
    body = {**BODY, "model": contender.stream_model, "stream": True}
    for _ in range(CALLS):
        began = time.perf_counter()
        with client.stream("POST", contender.stream_url, json=body) as response:
            response.raise_for_status()
            chunks = response.iter_raw()
            next(chunks)
            first = time.perf_counter()
            for _ in chunks:
                pass
        contender.first.append(first - began)
        contender.rest.append(time.perf_counter() - first)
    contender.cpu.append((_cpu_seconds(contender.pid) - cpu) / CALLS)


def _cpu_seconds(pid: int | None) -> float:
    """Return the CPU time of a process so far; 0 where `/proc` does not tell it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print(contenders: dict[str, Contender]) -> None:
    titles = ("answer", "first byte", "500 events", "CPU")
    print(f"{'':<16}" + "".join(f"{title:>13}{'ratio':>8}" for title in titles))
    bare = contenders["bare proxy"]
    for name, contender in contenders.items():
        columns = []
        for kind in ("plain", "first", "rest", "cpu"):
            value, base = (statistics.median(getattr(one, kind)) for one in (contender, bare))
            columns.append(f"{value * 1000:>10.2f} ms{value / base if base else 0:>8.2f}")
        print(f"{name:<16}{''.join(columns)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
