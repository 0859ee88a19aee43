"""Measure the commands that read runs, beyond the start of the program: CPU, memory, and written bytes.

Each command is a separate process that is run several times. The run with the least CPU counts. The cost of the same
command on a run of one call, which is mostly imports, is subtracted. Ratios are to `json.loads` of the lines of the
same journals, in this process, in the same run. A command that ends with another exit code than it should ends the
benchmark.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reading_runs import parsing_seconds, record, record_tools

EXPORTS = ("atif", "hierarchy", "invariant", "openai", "toolbrain", "traces", "trae", "trl")
COMMANDS = ("show", "show --json", "stats", "validate", *(f"export -f {name}" for name in EXPORTS))
INTO_A_FILE = {"invariant", "openai", "trl", "verifiers"}


@dataclass(frozen=True, order=True)
class Taken:
    """The cost of a process: seconds of CPU, with its children, and of the clock; its largest memory; written bytes."""

    cpu: float
    clock: float
    megabytes: float
    written: int


_MEASURE = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stderr=subprocess.PIPE)
clock, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
errors = done.stderr[-2000:].decode(errors="replace")
json.dump([used.ru_utime + used.ru_stime, clock, used.ru_maxrss, done.returncode, errors], sys.stderr)
"""
"""A small process starts the command, because a process counts its parent's memory as its own."""


def take(*arguments: object, exit_code: int = 0) -> Taken:
    """Run a command, and read its output. Raises RuntimeError if the command ends with another exit code."""
    return _take(sys.executable, "-m", "trace_recorder", *map(str, arguments), exit_code=exit_code)


def take_python(code: str, *arguments: object) -> Taken:
    """Run Python code with arguments. Raises RuntimeError if it fails."""
    return _take(sys.executable, "-c", code, *map(str, arguments))


def _take(*command: str, exit_code: int = 0) -> Taken:
    measured = [sys.executable, "-c", _MEASURE, *command]
    with subprocess.Popen(measured, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        written = 0
        while part := program.stdout.read(1 << 20):
            written += len(part)
        cpu, clock, memory, code, errors = json.loads(program.stderr.read())
    if code != exit_code:
        message = f"exit code {code} in place of {exit_code}: {' '.join(command)}\n{errors}"
        raise RuntimeError(message)
    return Taken(cpu, clock, memory / (1 << 20 if sys.platform == "darwin" else 1 << 10), written)


def least(tries: int, command: Sequence[str], run: Path) -> Taken:
    """Return the try of a command on a run with the least CPU. A file that it wrote counts as written bytes."""
    samples = []
    for _ in range(tries):
        with tempfile.TemporaryDirectory() as directory:
            out = ["-o", f"{directory}/out/"] if command[0] == "export" and command[-1] not in INTO_A_FILE else []
            taken = take(command[0], run, *command[1:], *out)
            files = sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
            samples.append(Taken(taken.cpu, taken.clock, taken.megabytes, taken.written + files))
    return min(samples)


def one_run(directory: Path, commands: Sequence[str], turns: Sequence[int], tries: int) -> Iterator[list[str]]:
    """Yield a row for each command, on runs with these numbers of turns and a tool of 4 KB each.

    The first run has all figures.
    """
    runs = {number: directory / f"turns_{number}.json" for number in turns}
    for number, run in runs.items():
        record_tools(run, number, 4000)
    smallest = directory / "smallest.json"
    record_tools(smallest, 1, 10)
    parsed = parsing_seconds(runs[turns[0]], tries)
    for name in commands:
        command = name.split()
        start = least(tries, command, smallest).cpu
        first, *others = (least(tries, command, run) for run in runs.values())
        yield [
            name,
            f"{start:.2f} s",
            *_beyond(first, start),
            f"{(first.cpu - start) / parsed:.0f} x",
            f"{first.megabytes:.0f} MB",
            f"{first.written / 1e6:.1f} MB",
            *(figure for other in others for figure in _beyond(other, start)),
        ]


def _beyond(taken: Taken, start: float) -> tuple[str, str]:
    """Return a command's cost beyond its start, and for each byte if it wrote many."""
    cpu = taken.cpu - start
    return f"{cpu:.2f} s", f"{1e9 * cpu / taken.written:.1f}" if taken.written > 10_000_000 else ""


def first_page(directory: Path, sizes: Sequence[int], tries: int) -> Iterator[list[str]]:
    """Return a row for each size: the CPU until `show` of 300 turns prints its first step, beside that of the whole
    output.
    """
    for size in sizes:
        run = directory / f"long_{size}.json"
        record_tools(run, 300, size)
        taken = [_until_first_step(run) for _ in range(tries)]
        first, whole = (min(seconds) for seconds in zip(*taken, strict=True))
        megabytes = run.with_suffix(".jsonl").stat().st_size / 1e6
        yield [f"{megabytes:.0f} MB", f"{first:.2f} s", f"{whole:.2f} s", f"{first / whole:.2f}"]


_FIRST_STEP = """
import sys, time
from trace_recorder.cli import main

class Stdout:
    encoding, errors, first = "utf-8", "strict", None
    def write(self, text):
        if self.first is None and "step 1," in text:
            self.first = time.process_time()
    def flush(self):
        pass
    def isatty(self):
        return False

began, sys.stdout = time.process_time(), Stdout()
try:
    main()
except SystemExit as end:
    if end.code:
        raise
print(sys.stdout.first - began, time.process_time() - began, file=sys.stderr)
"""
"""Runs a command, and prints after how many CPU seconds it wrote a first step, and the end."""


def _until_first_step(run: Path) -> tuple[float, ...]:
    done = subprocess.run([sys.executable, "-c", _FIRST_STEP, "show", run], stderr=subprocess.PIPE, check=True)
    return tuple(map(float, done.stderr.split()))


def many_runs(directory: Path, numbers: Sequence[int], tries: int) -> Iterator[list[str]]:
    """Return a row for each of `list` and `stats`, and each number of runs, with 10 calls each."""
    record_tools(directory / "run.json", 10, 500)
    for number in numbers:
        many = directory / f"many_{number}"
        many.mkdir()
        for copy in range(number):
            for suffix in (".json", ".jsonl"):
                shutil.copy(directory / f"run{suffix}", many / f"run_{copy:05}{suffix}")
        parsed = parsing_seconds(directory / "run.json", tries) * number
        for command in (["list"], ["stats", "--jobs", "1"], ["stats"]):
            few = least(tries, command, directory / "run.json")
            taken = least(1 if number > 1000 else tries, command, many)
            cpu = taken.cpu - few.cpu
            row = [" ".join(command), f"{number:,}", f"{few.cpu:.2f} s", f"{cpu:.2f} s", f"{cpu / parsed:.1f} x"]
            yield [*row, f"{taken.clock:.2f} s", f"{taken.megabytes:.0f} MB"]
        shutil.rmtree(many)


def starts(directory: Path, tries: int) -> Iterator[list[str]]:
    """Return a row for each of three commands that do almost nothing: the cost of the program's start."""
    run = directory / "start" / "run.json"
    run.parent.mkdir()
    record(run, 3, 20, growing=True)
    for number in (1, 2):
        for suffix in (".json", ".jsonl"):
            shutil.copy(run.with_suffix(suffix), run.with_name(f"run{number}{suffix}"))
    python = min(_take(sys.executable, "-c", "pass") for _ in range(tries))
    yield ["python -c pass", f"{python.cpu:.3f} s"]
    for command in (["--version"], ["list", run.parent], ["show", run]):
        yield [f"trace-recorder {command[0]}", f"{min(take(*command) for _ in range(tries)).cpu:.3f} s"]
