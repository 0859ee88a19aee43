"""Commands on long runs: `python -m benchmarks.long_histories`.

Four histories are recorded over HTTP, each with a tool result of `--size` characters a call: one grows, one slides, one
is compacted when it is long, and one gets an edit of a random old result with each call. A row is a command, a history
and a number of calls; `load` is the function. "Of json.loads" is the CPU beyond the start of the process, to
`json.loads` of the journal's lines. "By byte" is the same for each byte that is read or written, whichever are more:
`validate` reads the document too, `diff` reads two runs, and the output may be larger than the journal. `fork` reads a
run as a fork does, and `viewer` makes the answers that the page asks for. A ratio that stays the same for more calls
shows linear work. The last table has the recording of each history: the CPU of the thread that calls, at a tenth of the
calls and at the end, and the bytes of both files. A command that ends with another exit code than it should ends the
benchmark.

`--markdown` prints the ratios by byte as tables for docs/benchmarks.md, one for each number of calls, while they are
measured.

`--calls 10000` takes long. Exports that repeat each prompt write gigabytes then: choose `--commands`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.reading import table
from benchmarks.reading_commands import COMMANDS, Taken, least, take, take_python
from benchmarks.reading_runs import COMPLETION, URL, parsing_seconds
from benchmarks.real_texts import tool_result
from trace_recorder import TrajectoryRecorder, http_client

KEPT = 50
MAX_MESSAGES = 102
HISTORIES = ("growing", "sliding", "compacted", "edited")
MORE_EXPORTS = ("inspect", "otlp", "parquet", "session-traces", "verifiers")
WRITING = {
    "view -o": "view {run} -o {directory}/run.html",
    "share": "share {run} --content none --yes -o {directory}/run.zip",
    "index": "index {copies}",
    "redact": "redact {copies}/run.json --pattern request_id=[0-9a-f]+ --yes",
}
"""Commands that write files into a directory, or beside a copy of the run, or change the copy.

The pattern of `redact` is in each log.
"""
_NO_MATCH = 1
"""The exit code of `grep` if nothing matches. `EVERY` has a word that is in no run."""
EVERY = (
    *("load", *COMMANDS, *(f"export -f {name}" for name in MORE_EXPORTS)),
    *("export -f otlp --new-messages", "export -f inspect --form eval"),
    *("show --brief", "diff", "grep zyzzyva", "sql", "fork", "viewer", *WRITING),
)


def histories(kind: str, size: int) -> Iterator[list[str]]:
    """Yield the JSON texts of one prompt's messages after another."""
    chosen, number = Random(7), 0
    prompt = [_message("system", "Be brief. " * 20), _message("user", "fix it")]
    while True:
        yield prompt
        number += 1
        output = _message("tool", f"{number} {tool_result(number, size)}", tool_call_id=f"call_{number}")
        prompt = [*prompt, json.dumps(_answer(number)), output]
        if kind == "sliding":
            prompt = [*prompt[:2], *prompt[2:][-KEPT:]]
        elif kind == "edited":
            old = chosen.randint(1, number)
            prompt[1 + 2 * old] = _message("tool", f"[trimmed {number}]", tool_call_id=f"call_{old}")
        elif kind == "compacted" and len(prompt) > MAX_MESSAGES:
            prompt = [*prompt[:2], _message("user", f"Summary {number}: {tool_result(number, size)}"), *prompt[-4:]]


def _message(role: str, content: str, **members: str) -> str:
    return json.dumps({"role": role, "content": content, **members})


def _answer(number: int) -> dict[str, object]:
    function = {"name": "bash", "arguments": json.dumps({"command": f"sed -n {number}p a.py"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": f"{number}: I look at it.", "tool_calls": [call]}


def record(path: Path, kind: str, calls: int, size: int) -> list[float]:
    """Record a run. Return the milliseconds of a call at a tenth of the calls, and at the end."""
    import httpx  # noqa: PLC0415 - only recording needs it

    answers: list[httpx.Response] = []
    seconds = []
    with TrajectoryRecorder(path) as recorder:
        transport = httpx.MockTransport(lambda _: answers.pop())
        with http_client(recorder=recorder, library="httpx", transport=transport, trust_env=False) as client:
            for number, prompt in zip(range(1, calls + 1), histories(kind, size), strict=False):
                choice = {"index": 0, "message": _answer(number), "finish_reason": "tool_calls"}
                answers.append(httpx.Response(200, json={**COMPLETION, "id": f"c{number}", "choices": [choice]}))
                body = f'{{"model":"m","messages":[{",".join(prompt)}]}}'
                began = time.thread_time()
                client.post(URL, content=body, headers={"content-type": "application/json"})
                seconds.append(time.thread_time() - began)
    share = max(1, calls // 20)
    return [1000 * sum(part) / len(part) for part in (seconds[calls // 10 :][:share], seconds[-share:])]


class Measured(NamedTuple):
    """What a command took on a run: its CPU beyond the start, and its ratio to `json.loads` of the journal's lines.

    `larger` is how many times as large as the journal the read or written bytes are, whichever are more.
    """

    command: str
    kind: str
    calls: int
    seconds: float
    ratio: float
    larger: float
    taken: Taken
    writes_more: bool

    @property
    def row(self) -> list[str]:
        """The row of the table."""
        return [
            self.command,
            self.kind,
            f"{self.calls:,}",
            f"{self.seconds:.2f} s",
            f"{self.ratio:.0f} x",
            f"{self.ratio / self.larger:.0f} x",
            f"{self.taken.megabytes:.0f} MB",
            f"{self.taken.written / 1e6:.1f} MB",
        ]


def measured(
    runs: Mapping[tuple[str, int], Path], commands: Sequence[str], start: Path, tries: int
) -> Iterator[Measured]:
    """Yield what each command took, for each history and number of calls."""
    for command in commands:
        before = taken_by(command, start, tries).cpu
        for (kind, calls), run in runs.items():
            parsed = parsing_seconds(run, tries)
            taken = taken_by(command, run, tries)
            journal, document = (run.with_suffix(suffix).stat().st_size for suffix in (".jsonl", ".json"))
            read = {"validate": journal + document, "diff": 2 * journal}.get(command, journal)
            seconds, larger = taken.cpu - before, max(read, taken.written) / journal
            yield Measured(
                command, kind, calls, seconds, seconds / parsed, larger, taken, writes_more=taken.written > journal
            )


def markdown(every: Iterable[Measured], kinds: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table: a row for each command, and a column for each history.

    A star marks an output that is larger than the journal.
    """
    yield f"| | {' | '.join(kinds)} |"
    yield f"|---|{'---:|' * len(kinds)}"
    for command, row in groupby(every, attrgetter("command")):
        cells = [f"{one.ratio / one.larger:.0f}{'*' * one.writes_more}" for one in row]
        yield f"| `{command}` | {' | '.join(cells)} |"


_LOAD = "import sys; from trace_recorder import load; len(load(sys.argv[1]).llm_interactions)"
_FORK = "import sys; from trace_recorder.rerun.recorded import Recording; Recording(sys.argv[1])"
"""Reads a run as `fork`, `replay` and `serve` do."""
_VIEWER = """
import sys
from trace_recorder import load
from trace_recorder.viewer.interface import RunAnswers

run = RunAnswers(load(sys.argv[1]))
run.outline()
counts = run.counts
run.messages(range(max(0, counts["messages"] - 30), counts["messages"]))
for name in ("interactions", "steps"):  # their numbers begin at 1
    getattr(run, name)(range(max(1, counts[name] - 29), counts[name] + 1))
run.interaction(counts["interactions"])
run.raw(counts["interactions"])
"""
"""Makes the answers that the viewer's page first asks for, and one whole call."""
_PROGRAMS = {"load": _LOAD, "fork": _FORK, "viewer": _VIEWER}


def taken_by(command: str, run: Path, tries: int) -> Taken:
    """Return the least cost of a command on a run. `grep` has its pattern first, and `diff` gets the run twice.

    Raises RuntimeError if a command fails, or if `grep` finds its pattern.
    """
    if command in _PROGRAMS:
        return min(take_python(_PROGRAMS[command], run) for _ in range(tries))
    if command in WRITING:
        return min(_take_writing(WRITING[command], run) for _ in range(tries))
    if command == "sql":
        return min(take(command, "select count(*) from messages", run) for _ in range(tries))
    if command.startswith("grep"):
        return min(take(*command.split(), run, "--jobs", 1, exit_code=_NO_MATCH) for _ in range(tries))
    if command == "diff":
        return min(take(command, run, run) for _ in range(tries))
    return least(tries, command.split(), run)


def _take_writing(command: str, run: Path) -> Taken:
    """Return the cost of a command that writes files. The bytes of files that are new or changed count as written."""
    with tempfile.TemporaryDirectory() as place:
        copies = Path(place, "copies")
        copies.mkdir()
        for suffix in (".json", ".jsonl"):
            shutil.copy(run.with_suffix(suffix), copies / f"run{suffix}")
        before = _sizes(place)
        taken = take(*command.format(run=run, copies=copies, directory=place).split())
        after = _sizes(place)
    written = sum(after[version] for version in after.keys() - before.keys())
    return Taken(taken.cpu, taken.clock, taken.megabytes, taken.written + written)


def _sizes(place: str) -> dict[tuple[Path, int, int], int]:
    """Return the size of each file below a directory, by its path, inode, and time of its last change."""
    files = ((file, file.stat()) for file in Path(place).rglob("*") if file.is_file())
    return {(file, status.st_ino, status.st_mtime_ns): status.st_size for file, status in files}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_histories", description=__doc__)
    parser.add_argument("--calls", type=int, nargs="*", default=[1000, 3000])
    parser.add_argument("--size", type=int, default=1000, help="characters of a tool result (1000)")
    parser.add_argument("--tries", type=int, default=2)
    parser.add_argument("--histories", nargs="*", default=HISTORIES)
    parser.add_argument("--commands", nargs="*", default=EVERY)
    parser.add_argument("--markdown", action="store_true", help="print the ratios by byte as tables of Markdown")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        start = directory / "start.json"
        record(start, "growing", 1, options.size)
        runs, recorded = {}, []
        for kind in options.histories:
            for calls in options.calls:
                run = runs[kind, calls] = directory / f"{kind}_{calls}.json"
                tenth, end = record(run, kind, calls, options.size)
                sizes = [f"{run.with_suffix(suffix).stat().st_size / 1e6:.1f} MB" for suffix in (".jsonl", ".json")]
                recorded.append([kind, f"{calls:,}", f"{tenth:.2f} ms", f"{end:.2f} ms", *sizes])
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        if options.markdown:
            for calls in options.calls:
                print(f"{calls:,} calls\n")
                of_size = {key: run for key, run in runs.items() if key[1] == calls}
                for line in markdown(measured(of_size, options.commands, start, options.tries), options.histories):
                    print(line, flush=True)
                print()
            return
        titles = ["command", "history", "calls", "beyond start", "of json.loads", "by byte", "memory", "written"]
        table(titles, (one.row for one in measured(runs, options.commands, start, options.tries)))
        table(["history", "calls", "a tenth", "the end", "journal", "document"], recorded)


if __name__ == "__main__":
    main()
