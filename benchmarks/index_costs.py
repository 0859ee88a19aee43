"""Measure what an index costs: `python -m benchmarks.index_costs --runs 10000 --directory /tmp/many`.

`varied_runs.py` makes the missing runs. Their journals are read with `json.loads`, line by line, and the CPU time of
that is the unit of the others. Then an index is made from nothing, and updated after one run changed, after a tenth of
the runs was deleted, and without changes. Each update is a process of its own. `bytes written` is what it passed to
`write`, so the journal of SQLite counts too. It needs Linux. The deleted runs are made again at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.varied_runs import make, path_of, record
from trace_recorder.catalog.index_file import INDEX_NAME

_UPDATE = """
import sys, time
from trace_recorder import open_index
began = time.process_time()
update = open_index(sys.argv[1]).update()
cpu = time.process_time() - began
lines = [*open("/proc/self/io"), *open("/proc/self/status")]
values = dict(line.split(":", 1) for line in lines)
print(cpu, values["wchar"].strip(), int(values["VmHWM"].split()[0]) / 1024, update.runs)
"""
DELETED_SHARE = 0.1


def cpu_of_json(directory: Path) -> float:
    """Return the CPU time in which `json.loads` reads every line of every journal."""
    lines = [line for path in sorted(directory.rglob("run*.jsonl")) for line in path.read_bytes().splitlines()]
    began = time.process_time()
    for line in lines:
        json.loads(line)
    return time.process_time() - began


def bytes_of(directory: Path, pattern: str) -> int:
    """Return how many bytes files have together."""
    return sum(path.stat().st_size for path in directory.rglob(pattern))


def change(directory: Path, runs: int) -> None:
    """Record a run in the middle again, with other texts."""
    path = path_of(directory, runs // 2)
    for file in (path, path.with_suffix(".jsonl")):
        file.unlink()
    record(path, runs + time.time_ns() % 1_000_000)


def update(name: str, directory: Path, unit: float) -> None:
    """Update the index in a process of its own. Print what it cost."""
    done = subprocess.run([sys.executable, "-c", _UPDATE, directory], check=True, capture_output=True, text=True)
    cpu, written, memory, runs = map(float, done.stdout.split())
    size, journals = bytes_of(directory, INDEX_NAME), bytes_of(directory, "run*.jsonl")
    print(
        f"| {name} | {cpu:.2f} s | {cpu / unit:.2f} | {written / 1e6:.1f} MB | {memory:.0f} MB | {size / 1e6:.1f} MB "
        f"| {size / journals:.2f} | {runs:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    directory = Path(tempfile.gettempdir()) / "trace-recorder-many-runs"
    parser.add_argument("--directory", type=Path, default=directory)
    options = parser.parse_args()
    directory = options.directory
    make(directory, options.runs)
    (directory / INDEX_NAME).unlink(missing_ok=True)
    time.sleep(0.5)  # the index does not keep a run that changed just now
    unit = cpu_of_json(directory)
    print(f"{options.runs} runs, journals {bytes_of(directory, '*.jsonl') / 1e6:.0f} MB, `json.loads` {unit:.2f} s")
    print("| | CPU | of json.loads | bytes written | peak memory | index | of journals | runs |")
    print("|---|---|---|---|---|---|---|---|")
    update("from nothing", directory, unit)
    change(directory, options.runs)
    time.sleep(0.5)
    update("one changed run", directory, unit)
    update("nothing changed", directory, unit)
    journals = sorted(directory.rglob("run*.jsonl"))
    for journal in random.Random(1).sample(journals, int(len(journals) * DELETED_SHARE)):
        journal.unlink()
        journal.with_suffix(".json").unlink()
    update("a tenth deleted", directory, unit)
    make(directory, options.runs)


if __name__ == "__main__":
    main()
