"""The benchmarks run, and their figures have the stated meaning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.contenders import OWN
from benchmarks.figures import Comparison, Figure
from benchmarks.goals import goals
from benchmarks.reading_commands import take, take_python
from benchmarks.rounds import Results
from benchmarks.suite import WORKLOADS
from tests.processes import ROOT


def laps(*walls: float) -> list[dict[str, float]]:
    return [{"wall": wall, "cpu": wall} for wall in walls]


def test_the_table_has_every_contender() -> None:
    """A quick run of one workload prints a line of figures for each contender, and the goals of that workload."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--workloads", "tiny", "--no-instructions"]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    lines = [line.strip() for line in ended.stdout.splitlines()]
    missing = [value.title for value in OWN.values() if not any(line.startswith(f"{value.title}  ") for line in lines)]
    assert (missing, "did not run" in ended.stdout, ended.stdout.count("tiny: ms added")) == ([], False, 2)


def test_each_http_library_has_its_figures() -> None:
    """The table has a line for each installed HTTP library and each kind of call."""
    command = [sys.executable, "-m", "benchmarks.seams", "1", "1"]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    rows = [line.split(" | ")[:2] for line in ended.stdout.splitlines()[3:]]
    libraries = ["| httpx", "| httpx2", "| requests", "| urllib3"]
    assert rows == [[library, work] for work in ("tiny", "stream") for library in libraries]


def test_laps_are_compared_within_their_round() -> None:
    """Ratios are computed within each lap; the median lap stands for its round, and the median round for all rounds."""
    results = Results(
        rounds=[
            {"unrecorded": laps(1, 2, 4), "ours": laps(2, 2, 8)},
            {"unrecorded": laps(1, 1, 1), "ours": laps(1, 1, 9)},
            {"unrecorded": laps(10, 10, 10), "ours": laps(30, 30, 10)},
            {"unrecorded": laps(5), "whole-file": laps(50)},
        ]
    )

    ratios = [
        Comparison(name, WORKLOADS["tiny"], results).ratio("wall") for name in ("ours", "whole-file", "langsmith")
    ]

    assert ratios == [Figure(2, 1, 3), Figure(10, 10, 10), None]


def test_only_goals_of_measured_workloads_are_printed() -> None:
    """If only the workload of ten turns was measured, only its goals are printed."""
    results = Results(rounds=[{"unrecorded": laps(1.0), "control": laps(1.01), "ours": laps(1.04)}] * 2)

    told = list(goals({"turns-10": (WORKLOADS["turns-10"], results)}))

    assert told == [
        ("turns-10: by the clock ≤ 1.05", "1.040 (1.040..1.040; control 1.010)", True),
        ("turns-10: of CPU ≤ 1.05", "1.040 (1.040..1.040; control 1.010)", True),
    ]


def test_the_end_of_a_run_by_hand_has_a_row_for_each_history() -> None:
    """The table of `finalize` has a ratio for each history, and both files together grow with the new content."""
    command = [sys.executable, "-m", "benchmarks.by_hand", "--turns", "20", "--tries", "1"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines()[2:]]

    assert [row[0] for row in rows] == ["calls, auto", "calls, delta", "steps, auto", "steps, delta"]
    assert all(float(ratio.removesuffix(" x")) > 0 for row in rows for ratio in (row[1], row[3]))
    assert float(rows[1][-1]) < 0.5


def test_reading_has_a_row_for_each_run_and_each_command() -> None:
    """The benchmark of reading has ratios for Python, for commands on one run, and for commands on many runs."""
    command = [sys.executable, "-m", "benchmarks.reading", "--tries", "1", "--calls", "20", "--turns", "10"]
    command += ["--growth", "--runs", "2", "--processes", "1", "--commands", "export -f trae", "--pages", "40"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    named = {row[0]: row[1:] for row in rows}

    assert all(
        float(ratio.rstrip(" x")) > 0 for name in ("20 tiny calls", "10 turns of 4 KB") for ratio in named[name][:3]
    )
    assert named["export -f trae"][4].endswith(" MB")
    assert {"list", "stats", "stats --jobs 1"} <= {*named}
    assert "trace-recorder show" in named


def test_commands_that_write_files_have_their_rows_of_long_histories() -> None:
    """The benchmark of long runs has a row for commands that write beside a run, change it, or answer the viewer."""
    commands = ["index", "redact", "viewer"]
    command = [sys.executable, "-m", "benchmarks.long_histories", "--calls", "2", "--tries", "1"]
    command += ["--histories", "edited", "--commands", *commands]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.endswith(" MB |")]

    assert [row[0] for row in rows] == [*commands, "edited"]


def test_a_command_that_fails_ends_the_benchmark(tmp_path: Path) -> None:
    """A measured command must have the expected exit code. The error has what the command printed."""
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1 in place of 0.*trace-recorder: .*missing\.json"):
        take("show", tmp_path / "missing.json")
    with pytest.raises(RuntimeError, match="exit code 0 in place of 1"):
        take("--version", exit_code=1)
    with pytest.raises(RuntimeError, match="exit code 3 in place of 0"):
        take_python("raise SystemExit(3)")
    assert take_python("print('four')").written == len("four\n")
