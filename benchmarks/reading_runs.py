"""Runs for the benchmarks of reading, and the measurement of their time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.real_texts import tool_result
from benchmarks.viewing import record as record_tools
from trace_recorder import TrajectoryRecorder, http_client

__all__ = ["cpu_seconds", "lines_of", "parse", "parsing_seconds", "quickest", "record", "record_tools"]

COMPLETION = {
    "object": "chat.completion",
    "model": "m",
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}
URL = "https://api.openai.com/v1/chat/completions"


def record(path: Path, turns: int, size: int, *, growing: bool) -> None:
    """Record a run of this many calls. With `growing` each call repeats the history, and adds `size` characters
    to it.
    """
    import httpx  # noqa: PLC0415 - only recording needs it

    numbers = iter(range(1, turns + 1))

    def answer(_: httpx.Request) -> httpx.Response:
        number = next(numbers)
        choice = {"index": 0, "message": {"role": "assistant", "content": f"{number}: yes"}, "finish_reason": "stop"}
        return httpx.Response(200, json={**COMPLETION, "id": f"chatcmpl-{number}", "choices": [choice]})

    messages: list[dict[str, str]] = [{"role": "system", "content": "Be brief."}]
    with TrajectoryRecorder(path) as recorder:
        transport = httpx.MockTransport(answer)
        with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
            for turn in range(turns):
                asked = {"role": "user", "content": f"{turn}: {tool_result(turn, size)}"}
                messages = [*messages, asked] if growing else [messages[0], asked]
                client.post(URL, json={"model": "m", "messages": messages})
                messages = [*messages, {"role": "assistant", "content": f"{turn + 1}: yes"}]


def cpu_seconds(act: Callable[[], object]) -> float:
    """Return the CPU time of an act."""
    began = time.process_time()
    act()
    return time.process_time() - began


def lines_of(run: Path) -> list[bytes]:
    """Return the lines of a run's journal."""
    return run.with_suffix(".jsonl").read_bytes().splitlines()


def parse(lines: list[bytes]) -> None:
    """Parse lines, as the base for the time of reading them."""
    [json.loads(line) for line in lines]


def quickest(act: Callable[[], object], tries: int) -> float:
    """Return the least CPU time of an act."""
    return min(cpu_seconds(act) for _ in range(tries))


def parsing_seconds(run: Path, tries: int) -> float:
    """Return the CPU time that `json.loads` takes for the lines of a run's journal."""
    lines = lines_of(run)
    return quickest(lambda: parse(lines), tries)
