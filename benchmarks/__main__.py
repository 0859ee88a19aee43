"""What recording costs: one table, as ratios of one run. `python -m benchmarks [ROUNDS]`

Each contender runs in a process of its own, in turn, against the same local server with the real OpenAI SDK; each
figure is the median over the rounds of what a call took over the unrecorded calls of the same round. A second
unrecorded contender is the control: what it differs from 1.00 is noise.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from openai import OpenAI

from tests.capture.server import CHAT, plain, serving
from trace_recorder import TrajectoryRecorder

TURNS = (10, 50, 200)
TEXT = "All work and no play makes a benchmark of four kilobytes a dull one. " * 60
Record = Callable[[list[dict[str, str]], object], None]


def unrecorded(_: OpenAI, __: Path) -> tuple[Record, Callable[[], None]]:
    return _nothing, lambda: None


def ours(client: OpenAI, directory: Path) -> tuple[Record, Callable[[], None]]:
    recorder = TrajectoryRecorder(directory / "run.json")
    recorder.wrap(client)
    return _nothing, recorder.finalize


def ours_on_disk(client: OpenAI, directory: Path) -> tuple[Record, Callable[[], None]]:
    recorder = TrajectoryRecorder(directory / "run.json", durability="disk")
    recorder.wrap(client)
    return _nothing, recorder.finalize


def _nothing(messages: list[dict[str, str]], answer: object) -> None:
    """What is recorded is captured, or nothing is recorded."""


def whole_file(_: OpenAI, directory: Path) -> tuple[Record, Callable[[], None]]:
    interactions: list[object] = []

    def record(messages: list[dict[str, str]], answer: object) -> None:
        interactions.append({"input_messages": list(messages), "response": answer.model_dump()})
        with (directory / "run.json").open("w") as file:
            json.dump({"llm_interactions": interactions}, file, indent=2)

    return record, lambda: None


def full_lines(_: OpenAI, directory: Path) -> tuple[Record, Callable[[], None]]:
    def record(messages: list[dict[str, str]], answer: object) -> None:
        with (directory / "run.jsonl").open("a") as file:
            file.write(json.dumps({"input_messages": messages, "response": answer.model_dump()}) + "\n")

    return record, lambda: None


CONTENDERS = {
    "unrecorded": unrecorded,
    "control (unrecorded again)": unrecorded,
    "trace_recorder": ours,
    "trace_recorder, durability=disk": ours_on_disk,
    "the whole file each time": whole_file,
    "full records as lines": full_lines,
}


def contend(name: str, turns: int, url: str) -> dict[str, float]:
    """Run one contender's conversation in this process: seconds a call by the clock and of CPU, bytes on disk."""
    with tempfile.TemporaryDirectory() as place, OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        directory = Path(place)
        record, finish = CONTENDERS[name](client, directory)
        messages = [{"role": "system", "content": "You are measured."}]
        client.chat.completions.create(model="m", messages=messages)  # what is imported and connected once
        wall, cpu = time.perf_counter(), time.process_time()
        for turn in range(turns):
            messages.append({"role": "user", "content": f"{turn}: {TEXT}"})
            answer = client.chat.completions.create(model="m", messages=messages)
            record(messages, answer)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        finish()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = sum(file.stat().st_size for file in directory.iterdir() if file.suffix == ".jsonl" or "whole" in name)
        return {"wall": wall / turns, "cpu": cpu / turns, "bytes": size / turns}


def measure(rounds: int) -> None:
    """Print the table."""
    with serving(plain(CHAT)) as server:
        print(f"{'turns':>5}  {'contender':<34}{'wall':>7}{'CPU':>7}{'KB a call':>11}   (ratios to unrecorded)")
        for turns in TURNS:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
            for _ in range(rounds):
                for name, results in found.items():
                    command = [sys.executable, "-m", "benchmarks", name, str(turns), f"{server.url}/v1"]
                    results.append(json.loads(subprocess.check_output(command, env=os.environ)))
            for name, results in found.items():
                pairs = list(zip(results, found["unrecorded"], strict=True))
                wall, cpu = (
                    statistics.median(one[what] / base[what] for one, base in pairs) for what in ("wall", "cpu")
                )
                size = statistics.median(one["bytes"] for one in results) / 1000
                print(f"{turns:>5}  {name:<34}{wall:>7.2f}{cpu:>7.2f}{size:>11.1f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(contend(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
    else:
        measure(int(sys.argv[1]) if len(sys.argv) == 2 else 5)
