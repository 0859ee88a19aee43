"""Files of other tools, and checks of every run that is read from one.

Real files are not part of the project: if they are absent, the tests that need them are skipped with a reason. The
files in `tests/data/foreign` were produced for the project, each in a folder with the name of its format: by the tool
itself with a scripted provider, or by hand from the format's description.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest

from trace_recorder.facts import Fact
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.run import Call, ForeignRun, HttpExchange, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import read_foreign_runs
from trace_recorder.reading.fold import Fold
from trace_recorder.reading.own_files import load_lines
from trace_recorder.reading.validate import validate
from trace_recorder.storage.journal_reader import Record, read_records
from trace_recorder.values.trajectory import Trajectory

StatedFact = TypeVar("StatedFact", bound=Fact)
PRODUCED = Path(__file__).parents[1] / "data" / "foreign"
DIRECTORY = Path(os.environ.get("TRACE_RECORDER_FOREIGN", Path(__file__).parents[3] / "shared" / "foreign"))


def real_files(pattern: str) -> list[Path]:
    """Return the matching real files, in order. Skip the test if there are no such files."""
    found = sorted(path for path in DIRECTORY.glob(pattern) if path.is_file())
    if not found:
        pytest.skip(f"there is no {pattern} in {DIRECTORY}")
    return found


def produced_files(pattern: str = "*/**/*") -> list[Path]:
    """Return the produced files that match, in order. YAML files are left out if PyYAML is not installed."""
    found = sorted(path for path in PRODUCED.glob(pattern) if path.is_file())
    return [path for path in found if path.suffix != ".yaml" or find_spec("yaml")]


def produced_lines(name: str) -> list[Any]:
    """Return the JSON of each line of a produced file."""
    return [json.loads(line) for line in (PRODUCED / name).read_text(encoding="utf-8").splitlines()]


def produced_document(name: str) -> Any:
    """Return the JSON of a produced file."""
    return json.loads((PRODUCED / name).read_text(encoding="utf-8"))


def runs_of(path: Path) -> list[ForeignRun]:
    """Read the runs of a file by its format's module."""
    return [*read_foreign_runs(Source(path))]


def facts_in(run: ForeignRun, kind: type[StatedFact]) -> list[StatedFact]:
    """Return the facts of a kind that a run states."""
    facts = [event.fact for event in run.events if isinstance(event, TimedFact)]
    return [fact for fact in facts if isinstance(fact, kind)]


def check_only_run(directory: Path, path: Path) -> Trajectory:
    """Check the only run of a file, and return it. Its journal is written to a directory `runs`."""
    runs = directory / "runs"
    runs.mkdir()
    (run,) = runs_of(path)
    return check_run(run, runs)


def loaded(path: Path) -> Iterator[Trajectory]:
    """Load each run of a file."""
    for run in runs_of(path):
        yield load_lines(journal_lines(run), path)


def said_in(run: Trajectory) -> list[dict[str, Any]]:
    """Return for each call of a run how many messages its prompt has, and the known values of its answer."""
    return [
        {
            "saw": len(call.input_messages),
            "text": call.response.content,
            **({"asked": [(one.name, one.arguments) for one in asked]} if (asked := call.response.tool_calls) else {}),
            **({"usage": usage} if (usage := call.response.usage.to_document()) else {}),
        }
        for call in run.llm_interactions
    ]


def results_in(run: Trajectory) -> list[tuple[str, str | None, bool | None, Any]]:
    """Return the tool results of a run: the id of the call, the tool, whether it succeeded, and the result or the
    error.
    """
    results = [result for step in run.agent_steps for result in step.tool_results]
    return [(result.call_id, result.name, result.success, result.error or result.result) for result in results]


def check_run(run: ForeignRun, directory: Path) -> Trajectory:
    """Check an imported run, and return it.

    Its journal and document are valid, each call has the messages that the source gave it, and nothing is lost.
    """
    path = directory / f"{len([*directory.iterdir()])}.jsonl"
    path.write_bytes(b"".join(journal_lines(run)))
    records = [*read_records(path.read_bytes())]
    assert all(isinstance(record, Record) for record in records)
    fold = Fold()
    fold.add(records)
    trajectory = fold.trajectory("unknown")
    assert [gap for gap in trajectory.gaps if "could not" in gap.what or "damaged" in gap.what] == []
    assert [finding for finding in validate(path).findings if finding.severity == "error"] == []
    calls = [event for event in run.events if isinstance(event, Call)]
    if any(isinstance(event, HttpExchange) for event in run.events):
        return trajectory
    assert len(trajectory.llm_interactions) == len(calls)
    for one, call in zip(trajectory.llm_interactions, calls, strict=True):
        assert len(one.input_messages) == call.length
    return trajectory
