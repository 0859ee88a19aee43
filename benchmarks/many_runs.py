"""Measure the search of many runs: `python -m benchmarks.many_runs --runs 20000 --directory /tmp/many`.

`varied_runs.py` makes the missing runs. Then the package's commands are measured in sequence, each in a separate
process: the clock time, the CPU time including its children, the CPU time until its first line, and the largest memory
of one of its processes. "The files" is the least that a question can cost: a scan of the directory, and the state of
each file. Then the pages of the viewer's list are measured, as `benchmarks.viewing` asks for them. Other programs that
a user could use are measured too, if they are installed. `--lists` measures only the lists. `--tables` measures only
the export to Parquet and `sql`, beside `json.loads` of each line of the journals and `load` of each run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.varied_runs import RARE_WORD, make, path_of, record
from benchmarks.viewing import Viewer, cpu_seconds, viewer
from trace_recorder.catalog.index_file import INDEX_NAME

CHANGED = 100
QUERIES = {
    "nothing": "id:none",
    "a rare word": RARE_WORD,
    "a phrase": '"exit code 17"',
    "fields": "is:failed tool:bash>3",
    "fields and a word": f"status:failed tool:bash>1 since:9000d {RARE_WORD}",
    "a substring": f"text~{RARE_WORD[1:]}",
}
"""The first query matches no run: its cost is the start of the command, and the check of each file."""
LISTS = (
    ["list", "--limit", "20"],
    ["list", "--sort", "cost", "--reverse", "--limit", "20"],
    ["list"],
    ["list", "--json"],
    ["stats"],
)
FILES = """
import os, sys
waiting = [sys.argv[1]]
while waiting:
    with os.scandir(waiting.pop()) as entries:
        for entry in entries:
            waiting += [entry.path] if entry.is_dir() else []
            entry.stat()
"""
COMMANDS = (
    ["list", "--failed"],
    ["stats", "--by", "model"],
    ["stats", "--by", "task"],
    ["stats", "--by", "task", "--by", "model"],
    ["grep", "-F", "-l", RARE_WORD],
    ["grep", "-i", "-l", f"{RARE_WORD[1:]}$"],
)
EACH_RUN = {
    "json.loads of each line": "[json.loads(line) for line in journal.read_bytes().splitlines()]",
    "load of each run": "load(journal)",
    "load and messages of each run": "[len(call.input_messages) for call in load(journal).llm_interactions]",
}
"""Loops over all journals that tables are compared with."""
SQL = "select name, count(*) from tool_calls group by all"


def measured(name: str, command: Sequence[str | Path], runs: int | None = None) -> None:
    """Run a command. Print its cost, and how many lines it wrote, or the CPU time for each of `runs`."""
    first = 0.0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        output = process.stdout or iter(())
        lines = int(bool(next(output, b"")))
        with suppress(FileNotFoundError, ProcessLookupError):
            first = cpu_seconds(process.pid)
        lines += sum(1 for _ in output)
        _, _, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    memory, last = f"{usage.ru_maxrss / 1024:.0f} MB", f"{lines}"
    if runs is not None:
        last = f"{1000 * cpu / runs:.2f} ms a run"
    print(f"| {name} | {seconds:.2f} s | {cpu:.2f} s | {first:.2f} s | {memory} | {last} |", flush=True)


def change(directory: Path, count: int) -> None:
    """Record some runs again under new names."""
    for number in range(count):
        path = path_of(directory, number)
        for file in (path, path.with_suffix(".jsonl")):
            file.unlink(missing_ok=True)
        record(path, number)


def size(directory: Path, pattern: str) -> str:
    """Return how many bytes files have together."""
    return f"{sum(path.stat().st_size for path in directory.rglob(pattern)) / 1e6:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    directory = Path(tempfile.gettempdir()) / "trace-recorder-many-runs"
    parser.add_argument("--directory", type=Path, default=directory)
    parser.add_argument("--others", action="store_true", help="measure other programs too")
    parser.add_argument("--lists", action="store_true", help="measure only the lists; the index must be there")
    parser.add_argument("--tables", action="store_true", help="measure only the export to Parquet, and `sql`")
    options = parser.parse_args()
    directory, program = options.directory, [sys.executable, "-m", "trace_recorder"]
    make(directory, options.runs)
    print(f"{options.runs} runs, documents {size(directory, '*.json')}, journals {size(directory, '*.jsonl')}")
    print("| | time | CPU | until the first line | memory | lines |\n|---|---|---|---|---|---|")
    measured("the command alone", [*program, "--version"])
    if options.tables:
        tables(directory, program, options.runs)
        return
    if options.lists:
        lists(directory, program)
        return
    (directory / INDEX_NAME).unlink(missing_ok=True)
    if options.others:
        measured("find a rare word, no index", [*program, "find", RARE_WORD, directory, "--paths"])
    measured("index from nothing", [*program, "index", directory])
    measured("index, nothing changed", [*program, "index", directory])
    change(directory, min(CHANGED, options.runs))
    time.sleep(0.5)
    measured(f"index, {CHANGED} changed", [*program, "index", directory])
    print(f"index {size(directory, INDEX_NAME)}")
    for name, query in QUERIES.items():
        measured(f"find {name}", [*program, "find", query, directory, "--paths"])
    lists(directory, program)
    for command in COMMANDS:
        measured(" ".join(command), [*program, *command, directory])
    if options.others:
        others(directory)


def lists(directory: Path, program: Sequence[str]) -> None:
    """Measure lists of all runs, and pages of them, beside the least that they can cost."""
    measured("the files", [sys.executable, "-c", FILES, directory])
    measured("find nothing", [*program, "find", QUERIES["nothing"], directory, "--paths"])
    for command in LISTS:
        measured(" ".join(command), [*program, *command, directory])
    print("| the viewer | CPU so far | memory | bytes |\n|---|---|---|---|")
    with viewer(directory) as server:
        answer, size = server.get("/api/runs?since=&to=50")
        server_used(server, "the first page", size)
        while answer["unread"]:
            answer, size = server.get("/api/runs?since=&to=50")
        server_used(server, "all runs are known", size)
        middle = answer["count"] // 2
        _, size = server.get(f"/api/runs?version={answer['version']}&from={middle}&to={middle + 150}")
        server_used(server, "a page of the middle", size)


def server_used(server: Viewer, name: str, size: int) -> None:
    """Print what the server has used after an answer of this size."""
    print(f"| {name} | {server.cpu_seconds():.2f} s | {server.peak_megabytes():.0f} MB | {size} |", flush=True)


def tables(directory: Path, program: Sequence[str], runs: int) -> None:
    """Measure the export to Parquet, and a query of it."""
    for name, body in EACH_RUN.items():
        loop = (
            f"import json, sys\nfrom pathlib import Path\nfrom trace_recorder import load\n"
            f"for journal in Path(sys.argv[1]).rglob('*.jsonl'):\n    {body}"
        )
        measured(name, [sys.executable, "-c", loop, directory], runs)
    with tempfile.TemporaryDirectory() as out:
        export = [*program, "export", directory, "--format", "parquet", "-o", out]
        measured("export", export, runs)
        measured("export --resume, nothing new", [*export, "--resume"], runs)
        change(directory, min(CHANGED, runs))
        measured(f"export --resume, {CHANGED} changed", [*export, "--resume"], runs)
        measured("sql over the export", [*program, "sql", SQL, out])
        print(f"tables {size(Path(out), '*.parquet')}, {len([*Path(out).rglob('*.parquet')])} files")


def others(directory: Path) -> None:
    """Measure other programs that a user could use."""
    measured("grep -rl", ["grep", "-rlF", "--include=*.json", RARE_WORD, directory])
    if shutil.which("jq"):
        script = 'find "$0" -name "*.json" -print0 | xargs -0 jq -c "select(.status == \\"failed\\") | .task"'
        measured("jq, failed runs", ["sh", "-c", script, directory])
    with suppress(ImportError):
        import duckdb  # noqa: F401, PLC0415 - it may not be installed

        sql = f"select count(*) from read_json('{directory}/*/*.json', union_by_name=true, columns={json.dumps({'status': 'VARCHAR'})}) where status = 'failed'"  # noqa: S608, E501 - our own
        measured("DuckDB over the documents", [sys.executable, "-c", f"import duckdb; print(duckdb.sql({sql!r}))"])


if __name__ == "__main__":
    main()
