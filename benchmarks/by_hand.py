"""The cost of `finalize` for calls and steps that are recorded by hand: `python -m benchmarks.by_hand`.

Each call of a run repeats its whole history. The CPU time of `finalize` is given as a ratio to the time that
`json.loads` takes for the lines of the journal, in the same process. The fastest of several runs counts. How much work
`finalize` has depends on how far the document thread came during the run. "All of it" is the largest possible work: the
document is written from the whole journal at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.real_texts import prose, tool_result
from trace_recorder import TrajectoryRecorder
from trace_recorder.reading.live_document.whole_document import WholeDocument

KINDS = ("calls", "steps")
HISTORIES = ("auto", "delta")


def seconds(act: Callable[[], object]) -> float:
    """Return the CPU time of an act, in all threads."""
    began = time.process_time()
    act()
    return time.process_time() - began


def record(directory: Path, kind: str, history: Any, turns: int) -> TrajectoryRecorder:
    """Record a run of turns of 3.5 KB, except its end."""
    recorder = TrajectoryRecorder(directory / "run.json", task="by hand", history=history)
    recorder.start()
    messages: list[Any] = []
    for number in range(turns):
        messages.append({"role": "user", "content": f"{number} {tool_result(2 * number, 1800)}"})
        response = {
            "content": f"{number} {prose(200_000)[number * 97 :][:1690]}",
            "model": "m",
            "usage": {"input_tokens": 9},
        }
        if kind == "calls":
            recorder.record_llm_interaction(messages, response, "openai", "m")
        else:
            recorder.record_agent_step(number + 1, "completed", messages, response)
        messages.append({"role": "assistant", "content": response["content"]})
    return recorder


def measured(kind: str, history: str, turns: int) -> tuple[float, float, float, float]:
    """Return the seconds of a run: of `finalize`, of the whole document, of its lines by `json.loads`; and its
    megabytes.
    """
    with tempfile.TemporaryDirectory() as place:
        recorder = record(Path(place), kind, history, turns)
        end = seconds(lambda: recorder.finalize(success=True))
        path = recorder.trajectory_path
        size = path.stat().st_size + path.with_suffix(".jsonl").stat().st_size
        lines = path.with_suffix(".jsonl").read_bytes().splitlines()
        whole = seconds(lambda: WholeDocument(path.with_suffix(".jsonl"), history).write(path))
        return end, whole, seconds(lambda: [*map(json.loads, lines)]), size / 1e6


def rows(turns: int, tries: int) -> Iterator[str]:
    """Return the rows of the table."""
    for kind in KINDS:
        for history in HISTORIES:
            runs = [measured(kind, history, turns) for _ in range(tries)]
            end, whole, lines, size = (min(column) for column in zip(*runs, strict=True))
            yield (
                f"| {kind}, {history} | {end / lines:.1f} x | {end * 1e3:.0f} | {whole / lines:.1f} x "
                f"| {whole * 1e3:.0f} | {size:.1f} |"
            )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_hand", description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--tries", type=int, default=7)
    options = parser.parse_args()
    print(
        "| recorded | finalize | ms of CPU | all of it | ms of CPU | MB of both files |",
        "|---|---:|---:|---:|---:|---:|",
        sep="\n",
    )
    for row in rows(options.turns, options.tries):
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
