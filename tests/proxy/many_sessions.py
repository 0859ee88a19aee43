"""Many sessions of one proxy, at once and in sequence: its memory, its descriptors and its threads.

    python -m tests.proxy.many_sessions [AT_ONCE] [ONE_AFTER_ANOTHER]        # 200 and 2,000

It prints a line for each measurement. The simultaneous sessions each read a stream of 1,000 chunks. The others each get
a plain answer. A session ends after five seconds without a request. Each client must get exactly the stream that the
provider sent.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.processes import ROOT
from tests.provider import CHAT, Server, chat_chunk, plain, serving, stream
from trace_recorder import load

CHUNKS = 1_000
IDLE_SECONDS = 5
STREAM = [*(chat_chunk(f"word {number} ") for number in range(CHUNKS - 1)), b"data: [DONE]\n\n"]


def main(at_once: int, one_after_another: int) -> None:
    """Measure, and print the results."""
    with serving(plain(CHAT)) as server, tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--idle", str(IDLE_SECONDS)]
        command += ["--upstream", f"mine={server.url}", "--directory", directory]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            url = proxy.stdout.readline().split()[3].rstrip(",") + "/mine/v1/chat/completions"
            _measure(proxy.pid, "at the start")
            for number in range(3):
                _stream_at_once(server, url, at_once)
                _measure(proxy.pid, f"after {at_once} streams at once, time {number + 1}")
            _wait_until_idle(proxy.pid)
            _measure(proxy.pid, "when these are idle")
            _ask_one_after_another(server, url, one_after_another, proxy.pid)
            _wait_until_idle(proxy.pid)
            _measure(proxy.pid, "when these are idle")
            proxy.terminate()
        runs = [load(path) for path in Path(directory).glob("*.jsonl")]
        complete = sum(call.complete for run in runs for call in run.llm_interactions)
        print(f"{len(runs)} runs on file, {sum(len(run.llm_interactions) for run in runs)} calls, {complete} complete")


def _stream_at_once(server: Server, url: str, count: int) -> None:
    server.answers[:] = [stream(*STREAM)]
    asyncio.run(_read_streams(url, count))


async def _read_streams(url: str, count: int) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "q"}]}
    async with httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=None)) as client:
        sent = (client.post(url, json=body, headers={"session-id": f"at once {number}"}) for number in range(count))
        for response in await asyncio.gather(*sent):
            assert response.content == b"".join(STREAM)


def _ask_one_after_another(server: Server, url: str, count: int, process_id: int) -> None:
    server.answers[:] = [plain(CHAT)]
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    with httpx.Client(timeout=600) as client:
        for number in range(1, count + 1):
            client.post(url, json=body, headers={"session-id": f"after another {number}"}).raise_for_status()
            server.requests.clear()
            if number % (count // 4) == 0:
                _measure(process_id, f"after {number} sessions one after another")


def _wait_until_idle(process_id: int) -> None:
    """Wait until the idle runs are closed, so that no journal is open."""
    end = time.monotonic() + 120
    while any(name.endswith(".jsonl") for name in _open_files(process_id)) and time.monotonic() < end:
        time.sleep(1)


def _open_files(process_id: int) -> list[str]:
    names = []
    for descriptor in Path(f"/proc/{process_id}/fd").iterdir():
        try:
            names.append(str(descriptor.readlink()))
        except OSError:  # closed meanwhile
            continue
    return names


def _measure(process_id: int, when: str) -> None:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process_id}/status").read_text().splitlines())
    files = _open_files(process_id)
    sockets = sum(name.startswith("socket:") for name in files)
    memory = int(status["VmRSS"].split()[0]) // 1024
    print(
        f"{when}: {memory} MB, {len(files)} descriptors ({sockets} sockets), {status['Threads'].strip()} threads",
        flush=True,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or (200, 2_000)))
