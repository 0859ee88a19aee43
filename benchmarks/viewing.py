"""Measure the viewer: `python -m benchmarks.viewing`.

A run is recorded with a number of steps, each of which adds a tool's output to the history. A real server serves it,
and gets the requests of the page: first for the page, the outline, and the newest answers, steps and messages. "Opens"
is the time until all of these have arrived, for a run that the server has not read before, with the server's CPU time
in brackets. "Again" is the same for a second request. Then a record is appended to the run's journal, and "follows" is
the time until the server sends the change. The memory is the server's largest. "One file" is the size of the
self-contained page, and how long the command takes to write it. At last a directory with many runs is listed: until the
first rows, until all runs are read, and rows from the middle of the list. `viewer_page/e2e/list_timings.mjs` measures
the same in a browser.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.real_texts import tool_result
from trace_recorder import TrajectoryRecorder, http_client, load
from trace_recorder.recording.amend import append_annotation

URL = "https://api.openai.com/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {"type": "object"}}}]


def record(path: Path, steps: int, size: int) -> None:
    """Record a run in which each step asks for a tool whose result has `size` characters."""
    import httpx  # noqa: PLC0415 - only recording needs it

    numbers = iter(range(1, steps + 1))

    def answer(_: httpx.Request) -> httpx.Response:
        number = next(numbers)
        function = {"name": "bash", "arguments": json.dumps({"command": f"sed -n {number}p a.py"})}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": f"{number}: I look at it.", "tool_calls": calls}
        usage = {"prompt_tokens": 50 * number, "completion_tokens": 20, "total_tokens": 50 * number + 20}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        return httpx.Response(200, json={"id": f"c{number}", "model": "gpt-5-mini", "usage": usage, "choices": choices})

    messages: list[object] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "fix it"}]
    with TrajectoryRecorder(path, task="fix it") as recorder:
        transport = httpx.MockTransport(answer)
        with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
            for step in range(1, steps + 1):
                body = {"model": "gpt-5-mini", "messages": messages, "tools": TOOLS}
                said = client.post(URL, json=body).json()["choices"][0]["message"]
                output = tool_result(step, size)
                messages = [*messages, said, {"role": "tool", "tool_call_id": f"call_{step}", "content": output}]


def expanded_megabytes(path: Path) -> float:
    """Return how many megabytes the prompts of a run have if they are written out."""
    return sum(len(json.dumps(call.raw_request)) for call in load(path).llm_interactions) / 1e6


class Viewer:
    """A server in a separate process, and a client that sends it requests."""

    def __init__(self, address: str, pid: int) -> None:
        import httpx  # noqa: PLC0415 - only asking needs it

        base, _, token = address.partition("/?token=")
        self._pid = pid
        self._client = httpx.Client(
            base_url=base, headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=600
        )

    def get(self, address: str) -> tuple[object, int]:
        """Return an answer, and how many bytes it has."""
        answered = self._client.get(address)
        answered.raise_for_status()
        return (answered.json() if "json" in answered.headers["content-type"] else None), len(answered.content)

    def open(self, name: str) -> tuple[dict[str, object], int]:
        """Request what the page first shows of a run. Return the outline, and the bytes of all answers."""
        size = self.get("/")[1]
        outline, outline_size = self.get(f"/api/runs/{name}")
        counts = outline["counts"]
        for what in ("interactions", "steps", "messages"):
            size += self.get(f"/api/runs/{name}/{what}?from={max(0, counts[what] - 30)}")[1]
        return outline, size + outline_size

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server so far."""
        return cpu_seconds(self._pid)

    def peak_megabytes(self) -> float:
        """Return the largest memory of the server so far."""
        lines = Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8").splitlines()
        [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM")]
        return int(peak) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def viewer(directory: Path) -> Iterator[Viewer]:
    """Serve a directory."""
    command = [sys.executable, "-m", "trace_recorder", "view", str(directory), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield Viewer(server.stdout.readline().split()[-1], server.pid)
        finally:
            server.terminate()


def seconds(act: object) -> float:
    """Return the time of an act."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def opening(directory: Path, steps: int, size: int) -> list[str]:
    """Return the row of one run."""
    path = directory / "run.json"
    record(path, steps, size)
    expanded = expanded_megabytes(path)
    with viewer(directory) as asked:
        idle, before = asked.peak_megabytes(), asked.cpu_seconds()
        opened: list[tuple[dict[str, object], int]] = []
        first = seconds(lambda: opened.append(asked.open("run.json")))
        taken = asked.cpu_seconds() - before
        again = seconds(lambda: asked.open("run.json"))
        version = opened[0][0]["version"]
        append_annotation(path, "note", "seen")
        follows = seconds(lambda: asked.get(f"/api/runs/run.json/since?version={version}"))
        peak = asked.peak_megabytes()
    journal = path.with_suffix(".jsonl").stat().st_size / 1e6
    html = directory / "run.html"
    written = seconds(
        lambda: subprocess.run(
            [sys.executable, "-m", "trace_recorder", "view", str(path), "-o", str(html)],
            check=True,
            capture_output=True,
        )
    )
    sizes = [f"{steps:,}", f"{expanded:.1f} MB", f"{journal:.1f} MB", f"{opened[0][1] / 1e6:.2f} MB"]
    times = [
        f"{first:.2f} s ({taken:.2f} s)",
        f"{again:.2f} s",
        f"{follows * 1000:.0f} ms",
        f"{peak:.0f} MB ({idle:.0f} idle)",
    ]
    return [*sizes, *times, f"{html.stat().st_size / 1e6:.1f} MB, {written:.1f} s"]


def listing(directory: Path, runs: int) -> list[str]:
    """Return the row of a directory with many runs."""
    record(directory / "run.json", 10, 500)
    many = directory / "many"
    many.mkdir()
    for number in range(runs):
        for suffix in (".json", ".jsonl"):
            shutil.copy(directory / f"run{suffix}", many / f"run_{number:05}{suffix}")
    with viewer(many) as asked:
        before = asked.cpu_seconds()
        first = seconds(lambda: asked.get("/api/runs?since=&to=50"))
        whole = seconds(lambda: asked.get("/api/runs?to=50"))
        taken = asked.cpu_seconds() - before
        version = asked.get("/api/runs?to=50")[0]["version"]
        middle = seconds(lambda: asked.get(f"/api/runs?version={version}&from={runs // 2}&to={runs // 2 + 150}"))
        peak = asked.peak_megabytes()
    return [
        f"{runs:,}",
        f"{first:.2f} s",
        f"{first + whole:.2f} s ({taken:.2f} s)",
        f"{middle:.2f} s",
        f"{peak:.0f} MB",
    ]


def table(titles: list[str], rows: Iterator[list[str]]) -> None:
    """Print a table, each row as soon as it is measured."""
    print(f"| {' | '.join(titles)} |", f"|{'---:|' * len(titles)}", sep="\n")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.viewing", description=__doc__)
    parser.add_argument("--steps", type=int, nargs="*", default=[10, 100, 1000], help="steps of a run (10 100 1000)")
    parser.add_argument("--size", type=int, default=200, help="characters of a tool's output (200)")
    parser.add_argument("--runs", type=int, default=10_000, help="runs of a directory (10000)")
    options = parser.parse_args()
    titles = ["steps", "prompts written out", "journal", "sent", "opens", "again", "follows", "memory", "one file"]
    with tempfile.TemporaryDirectory() as place:
        places = [Path(place, str(number)) for number in range(len(options.steps) + 1)]
        for one in places:
            one.mkdir()
        pairs = zip(places, options.steps, strict=False)
        table(titles, (opening(one, steps, options.size) for one, steps in pairs))
        if options.runs:
            print()
            table(
                ["runs", "first rows", "all read", "rows of the middle", "memory"],
                iter([listing(places[-1], options.runs)]),
            )


if __name__ == "__main__":
    main()
