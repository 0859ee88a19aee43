"""Count what commands get from a store of S3: `python -m benchmarks.remote_runs --runs 10 100 1000`.

A local store (moto) serves the runs of `varied_runs.py`. Each command runs twice, in separate processes that share one
cache. The table has the requests of each kind, the bytes that the store sent, the most requests at one time, and the
CPU time of the command. `all` is the size of all files.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.varied_runs import make, path_of
from tests.s3_server import CountedStore, serving

LOAD = "import sys, trace_recorder as t; [len(t.load(p).llm_interactions) for p in sys.argv[1:]]"
LOAD_ALL = "import sys, trace_recorder as t; [len(r.llm_interactions) for r in t.load_all(sys.argv[1])]"


def main() -> None:
    """Print a table for each number of runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--commands", nargs="*", help="The names of the commands to measure. Default: all.")
    arguments = parser.parse_args()
    with serving() as store, tempfile.TemporaryDirectory() as directory:
        for runs in arguments.runs:
            local = Path(directory, str(runs), "runs")
            make(local, runs)
            _measure(store, local, runs, arguments.commands)


def _measure(store: CountedStore, local: Path, runs: int, names: list[str] | None) -> None:
    os.environ.update(store.environment())
    import fsspec  # noqa: PLC0415 - it reads the environment

    bucket = f"s3://bucket-{runs}"
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.mkdir(bucket)
    paths = [path for path in local.rglob("*.json*") if path.is_file()]
    for path in paths:
        files.pipe_file(f"{bucket}/runs/{path.relative_to(local)}", path.read_bytes())
    tables = local.parent / "tables"
    recorder = [sys.executable, "-m", "trace_recorder"]
    subprocess.run([*recorder, "export", "-f", "parquet", "-o", tables, local], check=True, capture_output=True)
    files.put(str(tables), f"{bucket}/tables", recursive=True)
    where, first, second = f"{bucket}/runs", *(path_of(Path("runs"), n) for n in (0, 1))
    commands: dict[str, list[str]] = {
        "list --limit 3": [*recorder, "list", where, "--limit", "3"],
        "list": [*recorder, "list", where],
        "list --where status": [*recorder, "list", where, "--where", "status:failed", "--limit", "3"],
        "find word": [*recorder, "find", "exit", where],
        "stats": [*recorder, "stats", where],
        "grep": [*recorder, "grep", "exit", where],
        "validate": [*recorder, "validate", where],
        "export": [*recorder, "export", "-f", "openai", where],
        "sql": [*recorder, "sql", "select count(*) from calls", where],
        "sql tables": [*recorder, "sql", "select count(*) from calls", f"{bucket}/tables"],
        "show one": [*recorder, "show", f"{bucket}/{first}"],
        "diff two": [*recorder, "diff", f"{bucket}/{first}", f"{bucket}/{second}"],
        "check": [*recorder, "check", f"{bucket}/{first}", "--against", f"{bucket}/{second}"],
        "share": [*recorder, "share", where, "--content", "full", "--yes", "--force", "-o", f"{local.parent}/s.zip"],
        "load one": [sys.executable, "-c", LOAD, f"{bucket}/{first}"],
        "load_all": [sys.executable, "-c", LOAD_ALL, where],
    }
    size = sum(path.stat().st_size for path in paths) / 1e6
    print(f"\n{runs} runs, {len(paths)} files, {size:.2f} MB in all\n")
    print("| command | time | requests | MB | at once | CPU s | exit |\n|---|---|---|---|---|---|---|")
    for name, command in commands.items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "TRACE_RECORDER_CACHE": cache}
            for time in ("first", "second"):
                store.reset()
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                result = subprocess.run(command, capture_output=True, env=environment, check=False)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                requests = " ".join(f"{number} {kind}" for kind, number in sorted(store.requests.items())) or "none"
                cells = (name, time, requests, f"{store.sent_bytes / 1e6:.3f}", store.most_at_once, f"{cpu:.1f}")
                print(f"| {' | '.join(map(str, cells))} | {result.returncode} |", flush=True)
                if result.returncode:
                    print(result.stderr.decode()[-300:].strip().replace("\n", " / "), file=sys.stderr)


if __name__ == "__main__":
    main()
