"""Thousands of runs for the end-to-end tests of the page, made quickly: one run is recorded, and its document copied.

The nth run has the task `task n` and n steps, and began n seconds after the first. Every tenth run failed.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.chat_calls import asked, call, said
from trace_recorder import TrajectoryRecorder

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def document_of(template: str, number: int) -> str:
    """Return the document of a run in the form of a recorder's, so that the list needs only its ends."""
    began = json.loads(template)["start_time"]
    text = template.replace('"task": "the first"', f'"task": "task {number}"', 1)
    text = text.replace(began, (BEGAN + timedelta(seconds=number)).isoformat(), 1)
    head, steps, tail = text.rpartition('"agent_steps": 1')
    text = f"{head}{steps[:-1]}{number}{tail}"
    return text.replace('"status": "completed"', '"status": "failed"', 1) if number % 10 == 0 else text


def main(directory: Path, count: int) -> None:
    """Write the runs, and print the name of the last one."""
    with TrajectoryRecorder(directory / "template.json", task="the first") as recorder:
        call(recorder, asked("hi"), said("yes"))
    template = (directory / "template.json").read_text(encoding="utf-8")
    for path in directory.glob("template.*"):
        path.unlink()
    for number in range(count):
        text = document_of(template, number)
        (directory / f"run{number:06}.json").write_text(text, encoding="utf-8")
    print(json.dumps({"last": f"run{count - 1:06}.json"}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
