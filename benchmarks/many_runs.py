"""Measure the search of many runs: `python -m benchmarks.many_runs --runs 20000 --directory /tmp/many`.

Runs are recorded by hand in several processes: three to nine calls each, with tools, words of a skewed vocabulary,
failures, rewards and several models. Runs that are there already are kept. Then the commands of the package are
measured one after another, each in a process of its own: the time of the clock, that of its processors with its
children, and its largest memory. Beside them are programs that a user would take instead, where they are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from trace_recorder import TrajectoryRecorder
from trace_recorder.catalog.file_states import states_of
from trace_recorder.catalog.index_file import INDEX_NAME

RUNS_PER_DIRECTORY = 1000
CHANGED = 100
VOCABULARY = [f"{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}word{number}" for number in range(20_000)]
MODELS = [("openai", "gpt-5-mini"), ("anthropic", "claude-sonnet-4-5"), ("ollama", "qwen3")]
TOOLS = ("bash", "read_file", "write_file", "search")
RARE = "zyzzyva"
"""A word of one run in a thousand."""
QUERIES = {
    "a rare word": RARE,
    "a phrase": '"exit code 17"',
    "fields": "is:failed tool:bash>3",
    "fields and a word": f"status:failed tool:bash>1 since:9000d {RARE}",
    "a substring": f"text~{RARE[1:]}",
}


def words(chosen: random.Random, count: int) -> str:
    """Words, of which few are frequent."""
    return " ".join(VOCABULARY[int(len(VOCABULARY) * chosen.random() ** 4)] for _ in range(count))


def record(directory: Path, number: int) -> None:
    """Record a run, unless it is there."""
    path = directory / f"{number // RUNS_PER_DIRECTORY:03}" / f"run{number:06}.json"
    if path.exists():
        return
    chosen = random.Random(number)
    provider, model = chosen.choice(MODELS)
    said_first = ("system", "Be brief. " * 40), ("user", words(chosen, 60))
    messages: list[object] = [{"role": role, "content": text} for role, text in said_first]
    task, metadata = words(chosen, 8), {"seed": number % 7}
    with suppress(RuntimeError), TrajectoryRecorder(path, task=task, metadata=metadata) as recorder:
        for call in range(chosen.randint(3, 9)):
            tool = {"id": f"call_{call}", "name": chosen.choice(TOOLS), "arguments": {"command": words(chosen, 6)}}
            usage = {"input_tokens": 60 * (call + 1), "output_tokens": 30}
            said = {"content": words(chosen, 30), "tool_calls": [tool], "usage": usage}
            recorder.record_llm_interaction(messages, said, provider, model)
            result = f"{words(chosen, 80)}\nexit code {chosen.randrange(40)}"
            if call == 2 and number % 1000 == 3:
                result += f" {RARE}"
            messages = [
                *messages,
                {"role": "assistant", "content": said["content"], "tool_calls": [tool]},
                {"role": "tool", "tool_call_id": tool["id"], "content": result},
            ]
        if number % 3 == 0:
            recorder.reward("solved", float(chosen.random() < 0.5))
        if number % 9 == 0:
            raise RuntimeError("the agent gave up")
        recorder.finalize(success=chosen.choice([True, False, None]))


def make(directory: Path, runs: int) -> None:
    """Record the runs that are missing."""
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(partial(record, directory), range(runs), chunksize=100):
            pass


def measured(name: str, command: Sequence[str | Path]) -> None:
    """Run a command, and print what it took and how many lines it wrote."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        lines = sum(1 for _ in process.stdout or ())
        _, _, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"| {name} | {seconds:.2f} s | {cpu:.2f} s | {usage.ru_maxrss / 1024:.0f} MB | {lines} |", flush=True)


def change(directory: Path, count: int) -> None:
    """Record some runs again, under other names."""
    for number in range(count):
        path = directory / "000" / f"run{number:06}.json"
        for file in (path, path.with_suffix(".jsonl")):
            file.unlink(missing_ok=True)
        record(directory, number)


def size(directory: Path, pattern: str) -> str:
    """How many bytes files have together."""
    return f"{sum(path.stat().st_size for path in directory.rglob(pattern)) / 1e6:.0f} MB"


def check(directory: Path) -> float:
    """How long it takes to compare the state of each file."""
    began = time.perf_counter()
    for _ in states_of(directory):
        pass
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    directory = Path(tempfile.gettempdir()) / "trace-recorder-many-runs"
    parser.add_argument("--directory", type=Path, default=directory)
    parser.add_argument("--others", action="store_true", help="measure other programs too")
    options = parser.parse_args()
    directory, program = options.directory, [sys.executable, "-m", "trace_recorder"]
    make(directory, options.runs)
    print(f"{options.runs} runs, documents {size(directory, '*.json')}, journals {size(directory, '*.jsonl')}")
    print("| | time | CPU | memory | lines |\n|---|---|---|---|---|")
    measured("the command alone", [*program, "--version"])
    (directory / INDEX_NAME).unlink(missing_ok=True)
    if options.others:
        measured("find a rare word, no index", [*program, "find", RARE, directory, "--paths"])
    measured("index from nothing", [*program, "index", directory])
    measured("index, nothing changed", [*program, "index", directory])
    change(directory, min(CHANGED, options.runs))
    time.sleep(0.5)
    measured(f"index, {CHANGED} changed", [*program, "index", directory])
    print(f"index {size(directory, INDEX_NAME)}; to look at each file takes {check(directory):.2f} s")
    for name, query in QUERIES.items():
        measured(f"find {name}", [*program, "find", query, directory, "--paths"])
    for command in (["list"], ["list", "--failed"], ["stats"], ["grep", "-F", "-l", RARE]):
        measured(" ".join(command), [*program, *command, directory])
    if options.others:
        others(directory)


def others(directory: Path) -> None:
    """Measure programs that a user would take."""
    measured("grep -rl", ["grep", "-rlF", "--include=*.json", RARE, directory])
    if shutil.which("jq"):
        script = 'find "$0" -name "*.json" -print0 | xargs -0 jq -c "select(.status == \\"failed\\") | .task"'
        measured("jq, failed runs", ["sh", "-c", script, directory])
    with suppress(ImportError):
        import duckdb  # noqa: F401, PLC0415 - it may not be installed

        sql = f"select count(*) from read_json('{directory}/*/*.json', union_by_name=true, columns={json.dumps({'status': 'VARCHAR'})}) where status = 'failed'"  # noqa: S608, E501 - our own
        measured("DuckDB over the documents", [sys.executable, "-c", f"import duckdb; print(duckdb.sql({sql!r}))"])


if __name__ == "__main__":
    main()
