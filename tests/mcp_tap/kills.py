"""Kills the tap, its server, or the proxy at random moments. Every message that the client received must be on file.

    python -m tests.mcp_tap.kills [KILLS]        # the long run; it prints a line at its end

The client sends calls as fast as the server answers, some with progress. A line that came whole must be
on file, and so must the call that it answers: in the run of the proxy, or in the run of the tap if the proxy is gone.
The tap ends as its server, and the server ends when the tap is gone.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.chat_calls import said
from tests.journals import RawRecord, read_raw
from tests.mcp_tap.test_tap import ASK, HELLO, SUMS, TAP, asking, lines
from tests.processes import ROOT
from tests.provider import Answer
from tests.provider import serving as answering
from tests.proxy.running import PATH
from trace_recorder import load
from trace_recorder.capture.proxy_header import PROXY_VARIABLE
from trace_recorder.values.messages import Payload

VICTIMS = ("tap", "server", "proxy")
MAX_SECONDS = 0.4
"""The victim is killed at most this long after the first answer."""
_TOOLS = ("add", "slow", "image", "add", "doubled")
_AT_ONCE = 16
"""About how many calls are open at once."""


class Client:
    """Sends calls to a server behind the tap until the server is gone. `received` has the lines that came whole."""

    def __init__(self, tap: subprocess.Popen[bytes]) -> None:
        self.received: list[Payload] = []
        self.answered = threading.Event()
        self._tap = tap
        self._room = threading.Semaphore(_AT_ONCE)
        self._is_gone = False
        self._threads = [threading.Thread(target=work) for work in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait until the server is gone."""
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        assert self._tap.stdin is not None
        try:
            self._tap.stdin.write(lines(HELLO))
            for number in range(1, 100_000):
                self._room.acquire()
                if self._is_gone:
                    return
                tool = _TOOLS[number % len(_TOOLS)]
                self._tap.stdin.write(lines(asking(number, tool, {"progressToken": number}, a=number, b=1)))
                self._tap.stdin.flush()
        except OSError:
            pass  # the server is gone

    def _read(self) -> None:
        assert self._tap.stdout is not None
        for line in self._tap.stdout:
            if line.endswith(b"\n"):
                self.received.append(json.loads(line))
                self.answered.set()
                self._room.release()
        self._is_gone = True
        self._room.release()


@contextmanager
def running_proxy(runs: Path) -> Iterator[tuple[int, str]]:
    """Run a proxy with an open session. Yield its process id and its address."""
    command = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--directory", str(runs)]
    with answering(Answer([said("Yes.").body])) as provider:
        environment = {**os.environ, "OPENAI_BASE_URL": f"{provider.url}/v1", "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            url = proxy.stdout.readline().split()[3].rstrip(",")
            httpx.post(url + PATH, json=ASK).raise_for_status()
            yield proxy.pid, url
            proxy.kill()


def kill_once(seed: int, directory: Path) -> tuple[int, list[str]]:
    """Kill one of the processes. Return how many messages the client received, and the problems."""
    victim = VICTIMS[seed % len(VICTIMS)]
    if victim != "proxy":
        return _kill(seed, directory, victim, None, {})
    with running_proxy(directory / "runs") as (proxy, url):
        return _kill(seed, directory, victim, proxy, {PROXY_VARIABLE: url})


def _kill(
    seed: int, directory: Path, victim: str, proxy: int | None, variables: dict[str, str]
) -> tuple[int, list[str]]:
    pid_file = directory / "pid"
    code = f"import os, runpy; open({str(pid_file)!r}, 'w').write(str(os.getpid())); "
    code += f"runpy.run_path({SUMS[-1]!r}, run_name='__main__')"
    command = [*TAP, *SUMS[:-1], "-c", code]
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tap:
        client = Client(tap)
        assert client.answered.wait(300), "the server does not answer"
        server = int(pid_file.read_text())
        time.sleep(random.Random(seed).uniform(0, MAX_SECONDS))
        os.kill({"tap": tap.pid, "server": server, "proxy": proxy or 0}[victim], signal.SIGKILL)
        if victim == "proxy":
            time.sleep(0.1)  # the tap goes on with a run of its own
            os.kill(server, signal.SIGTERM)
        client.wait()
        with suppress(BrokenPipeError):
            assert tap.stdin is not None
            tap.stdin.close()
        ended = tap.wait(60)
    expected = {"tap": -signal.SIGKILL, "server": -signal.SIGKILL, "proxy": -signal.SIGTERM}[victim]
    problems = [*_problems(client.received, directory)]
    if ended != expected:
        problems.append(f"the tap ended with {ended}")
    return len(client.received), problems


def _problems(received: list[Payload], directory: Path) -> Iterator[str]:
    on_file: list[Payload] = []
    for journal in directory.rglob("*.jsonl"):
        records = [record for record in read_raw(journal.read_bytes()) if isinstance(record, RawRecord)]
        on_file += [record.data.get("message") for record in records if record.kind == "mcp_message"]
        load(journal)
    for document in directory.rglob("*.json"):
        try:
            json.loads(document.read_bytes())
        except ValueError as error:
            yield f"{document.name} is not JSON: {error}"
    texts = {json.dumps(message, sort_keys=True) for message in on_file}
    asked = {message.get("id") for message in on_file if isinstance(message, dict) and "method" in message}
    for message in received:
        if json.dumps(message, sort_keys=True) not in texts:
            yield f"received, and not on file: {str(message)[:200]}"
        if message.get("id") is not None and message["id"] not in asked:
            yield f"its request is not on file: {str(message)[:200]}"


def main(kills: int) -> int:
    """Kill a number of times, and print the losses."""
    count = problems = 0
    for seed in range(kills):
        with tempfile.TemporaryDirectory() as directory:
            received, new_problems = kill_once(seed, Path(directory))
        count += received
        problems += len(new_problems)
        for problem in new_problems[:5]:
            print(f"kill {seed} of the {VICTIMS[seed % len(VICTIMS)]}: {problem}", flush=True)
    print(f"{kills} kills, {count} messages received, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
