"""Many async agents on one event loop, and how late the loop wakes a second task.

Between their calls agents wait, as for a model, so that the loop has idle time. The ticking task then measures how long
other tasks block the loop, and not that there is too much work. The waits are the same in every lap.

`Agents` is a workload of one run. `python -m benchmarks.at_once [ROUNDS] [PAUSE]` measures 200 agents with a run each.
The server answers after 50 ms, and between its calls an agent waits for PAUSE seconds on average (1.5), as for a tool.
Laps without and with recording take turns, each in a process of its own. The runs have begun before the clock starts.
The columns are medians of the laps:

- call: the median time of a call
- lag 99 %: how late the loop wakes another task; one in a hundred wakings is later
- CPU, of the loop: the CPU time of the process for each call, and of its event loop's thread alone
- document, at worst: how old documents are that lack records, in the median and at worst
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.contenders import Messages, Unrecorded
from benchmarks.server import ROOT, serving
from benchmarks.workloads import KB, SYSTEM, Conversation, ask, history, said, text

TICK = 0.001
AGENTS = 200
TURNS = 6
LOOK_SECONDS = 0.5
COLUMNS = ("call", "lag 99 %", "CPU", "of the loop", "document", "at worst")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@dataclass(frozen=True)
class Agents(Conversation):
    """`agents` conversations at once. `calls` is the number of calls of all agents together."""

    agents: int = 32
    pause: float = 0.3
    """How many seconds an agent waits between its calls, on average."""

    def client(self, url: str) -> Any:
        """Return the client that all agents of a process share."""
        openai = import_module("openai")
        return openai.AsyncOpenAI(api_key="sk-bench", base_url=f"{url}/v1", max_retries=0)

    def warm(self, client: Any, contender: Unrecorded) -> Messages:
        """Make one call of each agent at once, so that there are as many connections."""
        messages = [SYSTEM, *history(self.before)] if self.before else [SYSTEM]
        _loop().run_until_complete(self._calls(client, contender, messages, 1, 0.0))
        return messages

    def run(self, client: Any, contender: Unrecorded, messages: Messages) -> dict[str, float]:
        """Make all calls. Return the largest lateness of the loop, and the lateness that a hundredth of the ticks
        exceeds, in seconds.
        """
        late = _loop().run_until_complete(self._watched(client, contender, messages))
        late.sort()
        return {"stall": late[-1], "stall_p99": late[len(late) * 99 // 100]}

    async def _watched(self, client: Any, contender: Unrecorded, messages: Messages) -> list[float]:
        late: list[float] = []
        ticking = asyncio.create_task(_tick(late))
        await self._calls(client, contender, messages, self.calls // self.agents, self.pause)
        ticking.cancel()
        return late

    async def _calls(self, client: Any, contender: Unrecorded, messages: Messages, turns: int, pause: float) -> None:
        agents = (self._agent(client, contender, [*messages], number, turns, pause) for number in range(self.agents))
        await asyncio.gather(*agents)

    async def _agent(  # noqa: PLR0913, PLR0917 - what an agent is told
        self, client: Any, contender: Unrecorded, messages: Messages, number: int, turns: int, pause: float
    ) -> None:
        chance = random.Random(number)
        for turn in range(turns):
            await asyncio.sleep(pause * 2 * chance.random())
            messages.append({"role": "user", "content": text(number * 1000 + turn, self.size)})
            answer = await ask(client, messages)
            contender.record(messages, answer)
            messages.append(said(answer.choices[0].message.content, messages))


async def _tick(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - began - TICK)


def main(rounds: float = 3, pause: float = 1.5) -> None:
    """Measure, and print the table."""
    laps: dict[str, list[list[float]]] = {"unrecorded": [], "recorded": []}
    with serving() as url:
        for _ in range(int(rounds)):
            for kind, figures in laps.items():
                figures.append(_lap(kind, url, pause))
    print(f"{'':<12}" + "".join(f"{column:>13}{'ratio':>7}" for column in COLUMNS))
    medians = {kind: [*map(statistics.median, zip(*figures, strict=True))] for kind, figures in laps.items()}
    for kind, figures in medians.items():
        values = zip(figures, medians["unrecorded"], strict=True)
        print(
            f"{kind:<12}" + "".join(f"{value:>10.2f} ms{value / base if base else 0:>7.2f}" for value, base in values)
        )
    print(f"the load of the machine: {os.getloadavg()[0]:.1f}")


def _lap(kind: str, url: str, pause: float) -> list[float]:
    """Run a lap in a process. Return its figures in milliseconds, in the order of the columns."""
    command = [sys.executable, "-m", "benchmarks.at_once", "lap", kind, url, str(pause)]
    ages = [0.0]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen([*command, directory], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()  # the clock starts
        while process.poll() is None:
            ages += _ages(Path(directory))
            time.sleep(LOOK_SECONDS)
        figures: list[float] = json.loads(process.stdout.readline())
    return [*figures, statistics.median(ages) * 1000, max(ages) * 1000]


def _ages(directory: Path) -> list[float]:
    """Return for each run how many seconds old its document is, or 0 if the document lacks nothing."""
    ages = []
    for journal in directory.glob("run-*.jsonl"):
        document, newest = journal.with_suffix(".json").stat().st_mtime, journal.stat().st_mtime
        ages.append(time.time() - document if newest > document else 0.0)
    return ages


async def _many(kind: str, url: str, pause: float, directory: str) -> list[float]:
    client = import_module("openai").AsyncOpenAI(
        api_key="sk-bench", base_url=f"{url}/slow/v1", max_retries=0, timeout=600
    )
    runs: list[AbstractAsyncContextManager[object]] = [nullcontext()] * AGENTS
    if kind == "recorded":
        recording = import_module("trace_recorder")
        client = recording.wrap(client)
        runs = [recording.TrajectoryRecorder(Path(directory, f"run-{number}.json")) for number in range(AGENTS)]
    begun, may_end, started = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()
    seconds: list[float] = []
    late: list[float] = []

    async def agent(number: int) -> None:
        chance, messages = random.Random(number), [SYSTEM]
        async with runs[number]:
            await ask(client, [SYSTEM, {"role": "user", "content": "Are you there?"}])
            begun.release()
            await started.wait()
            for turn in range(TURNS):
                await asyncio.sleep(pause * 2 * chance.random())
                messages.append({"role": "user", "content": text(number * 1000 + turn, 4 * KB)})
                began = time.perf_counter()
                answer = await ask(client, messages)
                seconds.append(time.perf_counter() - began)
                messages.append(said(answer.choices[0].message.content, messages))
            begun.release()
            await may_end.wait()

    async with asyncio.TaskGroup() as tasks:
        for number in range(AGENTS):
            tasks.create_task(agent(number))
        for _ in range(AGENTS):
            await begun.acquire()
        print(flush=True)
        cpu, of_loop = time.process_time(), time.thread_time()
        ticking = asyncio.create_task(_tick(late))
        started.set()
        for _ in range(AGENTS):
            await begun.acquire()
        calls = AGENTS * TURNS
        figures = [(time.process_time() - cpu) / calls, (time.thread_time() - of_loop) / calls]
        ticking.cancel()
        may_end.set()
    return [1000 * figure for figure in (statistics.median(seconds), statistics.quantiles(late, n=100)[-1], *figures)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["lap"]:
        _, _, recorded, server_url, seconds_between, runs_directory = sys.argv
        print(json.dumps(asyncio.run(_many(recorded, server_url, float(seconds_between), runs_directory))))
    else:
        main(*map(float, sys.argv[1:]))
