"""The time that the proxy adds to a call. `python -m benchmarks.proxying [ROUNDS]` prints a table.

A client makes the same calls directly, through the proxy, and through the proxy with recording turned off
(TRACE_RECORDER_DISABLED), which is a bare proxy on the same libraries. LiteLLM's proxy and claude-tap take part if
their commands, `litellm` and `claude-tap`, are on the PATH. The contenders take turns with each call, so that other
work of the machine affects all of them. Times are medians, and only the ratios are compared. The columns:

- answer: a plain answer, from the request to its last byte
- first byte: a stream, from the request to its first byte
- delay: from the server's write of an event to its arrival at the client, in a stream of an event every 5 ms
- events: a stream of 500 events at full speed, from its first byte to its last
- CPU, the CPU time of the contender's process, on Linux: of an answer, of 500 events, of 40 events at that pace, and of
  one call of each kind

`python -m benchmarks.proxying sessions [NUMBER]` opens up to 2,000 sessions in the recording and in the bare proxy, in
turns. It prints what the first and the second call of a session take, by the clock and of CPU, while 500, 1,000 and so
on are open, and how long each proxy takes to end after Ctrl-C.
"""

from __future__ import annotations

import os
import re
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
"""How many calls of each kind there are in a round."""

START_SECONDS = 120
_OF_LITELLM = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
"""Without these settings it downloads prices, and does not start without a key."""


PATHS = {"plain": "", "stream": "/stream", "paced": "/paced"}
"""The path of the server for each kind of answer."""
CPU_COLUMNS = {"plain": "CPU: answer", "stream": "500 events", "paced": "paced"}
COLUMNS = ("answer", "first byte", "delay", "events", *CPU_COLUMNS.values(), "all")
CLOCK = re.compile(rb'"content":\s*"(\d+\.\d+)"')


@dataclass
class Contender:
    """A way to the server, and the process on the way, if any. `seconds` has what was measured, by column.

    `tells_by_model`: LiteLLM's proxy knows the kind of an answer by the model's name, not by the path.
    """

    url: str
    pid: int | None = None
    tells_by_model: bool = False
    seconds: dict[str, list[float]] = field(default_factory=lambda: {column: [] for column in COLUMNS})

    def request(self, kind: str) -> tuple[str, dict[str, object]]:
        """Return the URL and the body of a request for a kind of answer."""
        path, model = ("", kind) if self.tells_by_model else (PATHS[kind], "m")
        return f"{self.url}{path}/v1/chat/completions", {**BODY, "model": model, "stream": kind != "plain"}


def main(rounds: int) -> None:
    """Measure, and print the table."""
    with ExitStack() as stack:
        upstream = stack.enter_context(serving())
        contenders = {
            "direct": Contender(upstream),
            "bare proxy": stack.enter_context(_proxy(upstream, {"TRACE_RECORDER_DISABLED": "1"})),
            "recording proxy": stack.enter_context(_proxy(upstream, {})),
        }
        for name, peer in {"claude-tap": _claude_tap, "litellm": _litellm}.items():
            if shutil.which(name):
                contenders[name] = stack.enter_context(peer(upstream))
        clients = {name: stack.enter_context(httpx.Client(timeout=60)) for name in contenders}
        for number in range(rounds + 1):
            _round(clients, contenders)
            if number == 0:  # the first call imports, connects and compiles
                for contender in contenders.values():
                    for seconds in contender.seconds.values():
                        seconds.clear()
    _print(contenders)


@contextmanager
def _proxy(upstream: str, environment: dict[str, str]) -> Iterator[Contender]:
    """Run a proxy in a separate process, and yield the URL that leads through it."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--upstream", f"bench={upstream}"]
        with subprocess.Popen(
            [*command, "--directory", directory],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            yield Contender(process.stdout.readline().split()[3].rstrip(",") + "/bench", process.pid)
            process.send_signal(signal.SIGINT)
            process.communicate()


SESSIONS_IN_A_ROW = 500


def sessions(number: int = 2000) -> None:
    """Measure many open sessions, and print a row for each 500."""
    with ExitStack() as stack:
        upstream = stack.enter_context(serving())
        client = stack.enter_context(httpx.Client(timeout=600))
        proxies = {
            "bare proxy": stack.enter_context(_proxy(upstream, {"TRACE_RECORDER_DISABLED": "1"})),
            "recording proxy": stack.enter_context(_proxy(upstream, {})),
        }
        for begin in range(0, number, SESSIONS_IN_A_ROW):
            for turn in ("first", "second"):
                for name, proxy in proxies.items():
                    before = _cpu_seconds(proxy.pid)
                    names = range(begin, begin + SESSIONS_IN_A_ROW)
                    seconds = statistics.median(_call_of_session(client, proxy, f"session {one}") for one in names)
                    cpu = (_cpu_seconds(proxy.pid) - before) / SESSIONS_IN_A_ROW
                    opened = f"{begin + SESSIONS_IN_A_ROW} open, {turn} call"
                    print(f"{name:<16}{opened:<24}{seconds * 1000:>7.2f} ms, CPU {cpu * 1000:.2f} ms", flush=True)
        for name, proxy in proxies.items():
            assert proxy.pid is not None
            began = time.monotonic()
            os.kill(proxy.pid, signal.SIGINT)
            while _cpu_seconds(proxy.pid) and not _is_zombie(proxy.pid):
                time.sleep(0.01)
            print(f"{name:<16}ended {time.monotonic() - began:.2f} s after Ctrl-C")
    print(f"the load of the machine: {os.getloadavg()[0]:.1f}")


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _call_of_session(client: httpx.Client, proxy: Contender, session: str) -> float:
    url, body = proxy.request("plain")
    began = time.monotonic()
    client.post(url, json=body, headers={"session-id": session}).raise_for_status()
    return time.monotonic() - began


@contextmanager
def _claude_tap(upstream: str) -> Iterator[Contender]:
    with _peer("claude-tap", "--tap-no-launch", "--tap-no-live", "--tap-no-open", "--tap-client", "codex",
               "--tap-host", "127.0.0.1", "--tap-allow-path", "/v1", "--tap-allow-path", "/stream",
               "--tap-allow-path", "/paced", "--tap-target", upstream,
               port_option="--tap-port") as (url, pid):  # fmt: skip
        yield Contender(url, pid)


@contextmanager
def _litellm(upstream: str) -> Iterator[Contender]:
    with tempfile.TemporaryDirectory() as directory:
        entries = (
            f"- model_name: {name}\n"
            f"  litellm_params: {{model: openai/m, api_key: k, api_base: '{upstream}{path}/v1'}}\n"
            for name, path in PATHS.items()
        )
        config = Path(directory, "config.yaml")
        config.write_text("model_list:\n" + "".join(entries))
        with _peer("litellm", "--config", str(config), "--host", "127.0.0.1", port_option="--port") as (url, pid):
            yield Contender(url, pid, tells_by_model=True)


@contextmanager
def _peer(*command: str, port_option: str) -> Iterator[tuple[str, int]]:
    """Run a peer at a free port during a block. Yield its URL and its process when it answers."""
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


def _round(clients: dict[str, httpx.Client], contenders: dict[str, Contender]) -> None:
    for kind, column in CPU_COLUMNS.items():
        before = {name: _cpu_seconds(contender.pid) for name, contender in contenders.items()}
        for _ in range(CALLS):
            for name, contender in contenders.items():
                _MEASURE[kind](clients[name], contender)
        for name, contender in contenders.items():
            contender.seconds[column].append((_cpu_seconds(contender.pid) - before[name]) / CALLS)
    for contender in contenders.values():
        contender.seconds["all"].append(sum(contender.seconds[column][-1] for column in CPU_COLUMNS.values()))


def _measure_answer(client: httpx.Client, contender: Contender) -> None:
    url, body = contender.request("plain")
    began = time.monotonic()
    client.post(url, json=body).raise_for_status()
    contender.seconds["answer"].append(time.monotonic() - began)


def _measure_stream(client: httpx.Client, contender: Contender) -> None:
    began = time.monotonic()
    arrivals = [at for at, _ in _chunks(client, contender, "stream")]
    contender.seconds["first byte"].append(arrivals[0] - began)
    contender.seconds["events"].append(arrivals[-1] - arrivals[0])


def _measure_pace(client: httpx.Client, contender: Contender) -> None:
    for at, chunk in _chunks(client, contender, "paced"):
        contender.seconds["delay"] += (at - float(clock) for clock in CLOCK.findall(chunk))


_MEASURE = {"plain": _measure_answer, "stream": _measure_stream, "paced": _measure_pace}


def _chunks(client: httpx.Client, contender: Contender, kind: str) -> Iterator[tuple[float, bytes]]:
    """Yield the chunks of a stream, with the time at which each arrived."""
    url, body = contender.request(kind)
    with client.stream("POST", url, json=body) as response:
        response.raise_for_status()
        for chunk in response.iter_raw():
            yield time.monotonic(), chunk


def _cpu_seconds(pid: int | None) -> float:
    """Return the CPU time of a process so far, or 0 if it has ended or the system does not tell it."""
    if pid is None:
        return 0.0
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the number of the process's clock, as Linux makes it
    except OSError:
        return 0.0


def _print(contenders: dict[str, Contender]) -> None:
    print(f"{'':<16}" + "".join(f"{column:>13}{'ratio':>8}" for column in COLUMNS))
    bare = contenders["bare proxy"]
    for name, contender in contenders.items():
        line = f"{name:<16}"
        for column in COLUMNS:
            value, base = (statistics.median(way.seconds[column]) for way in (contender, bare))
            line += f"{value * 1000:>10.2f} ms{value / base if base else 0:>8.2f}"
        print(line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["sessions"]:
        sessions(*map(int, sys.argv[2:]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
