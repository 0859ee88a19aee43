"""What reading a run costs, compared to `json.loads` of its journal's lines: `python -m benchmarks.reading`.

Two runs: many tiny calls, and turns of a conversation of 4 KB each. Of each figure the quickest of several tries is
taken. `load` reads the journal; the next column reads every message of every call as well, and the last one does that
twice.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from trace_recorder import TrajectoryRecorder, http_client, load

COMPLETION = {
    "object": "chat.completion",
    "model": "m",
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}
URL = "https://api.openai.com/v1/chat/completions"


def record(path: Path, turns: int, size: int, *, growing: bool) -> None:
    """Record a run of so many calls. With `growing` each call repeats the history, and adds `size` characters to it."""
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
                asked = {"role": "user", "content": f"{turn}: {'x' * size}"}
                messages = [*messages, asked] if growing else [messages[0], asked]
                client.post(URL, json={"model": "m", "messages": messages})
                messages = [*messages, {"role": "assistant", "content": f"{turn + 1}: yes"}]


def quickest(act: Callable[[], object], tries: int) -> float:
    """The least time of the processor that something takes."""
    taken = []
    for _ in range(tries):
        began = time.process_time()
        act()
        taken.append(time.process_time() - began)
    return min(taken)


def read_messages(path: Path, times: int) -> int:
    """Load a run, and read every message of every call; return their number."""
    trajectory = load(path)
    return sum(len(list(one.input_messages)) for _ in range(times) for one in trajectory.llm_interactions)


def ratios(path: Path, tries: int) -> list[float]:
    """How many times as long as parsing the lines it takes to load a run, to read its messages, and to do so twice."""
    lines = path.with_suffix(".jsonl").read_bytes().splitlines()
    parsed = quickest(lambda: [json.loads(line) for line in lines], tries)
    acts = (lambda: load(path), lambda: read_messages(path, 1), lambda: read_messages(path, 2))
    return [quickest(act, tries) / parsed for act in acts]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000, help="tiny calls (2000)")
    parser.add_argument("--turns", type=int, default=300, help="turns of 4 KB (300)")
    options = parser.parse_args()
    print("| run | `load` | and every message | and again |", "|---|---:|---:|---:|", sep="\n")
    runs = (
        (f"{options.calls} tiny calls", options.calls, 20, False),
        (f"{options.turns} turns of 4 KB", options.turns, 4000, True),
    )
    with tempfile.TemporaryDirectory() as directory:
        for name, turns, size, growing in runs:
            path = Path(directory, f"{turns}_{size}.json")
            record(path, turns, size, growing=growing)
            print(
                f"| {name} | " + " | ".join(f"{ratio:.1f} x" for ratio in ratios(path, options.tries)) + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
