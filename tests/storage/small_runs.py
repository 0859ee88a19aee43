"""Records runs with one task each, and reads the tasks of the runs in a directory."""

from __future__ import annotations

import json
from pathlib import Path

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.storage.paths import journal_path_for


def run(path: Path, task: str) -> TrajectoryRecorder:
    """Record a whole run at a given path."""
    recorder = TrajectoryRecorder(path, task=task)
    recorder.start()
    recorder.finalize(success=True)
    return recorder


def tasks(directory: Path) -> dict[str, str]:
    """Return the task of each pair of files in a directory, which both files state, and the names of other files."""
    by_name = {}
    for path in sorted(directory.iterdir()):
        if path.suffix == ".json" and journal_path_for(path).exists():
            document = json.loads(path.read_text())["task"]
            by_name[path.name] = document if document == load(path).task else f"{document} and {load(path).task}"
        elif not (path.suffix == ".jsonl" and path.with_suffix(".json").exists()):
            by_name[path.name] = "alone"
    return by_name
