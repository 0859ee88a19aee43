"""The same run, recorded. This file has everything that the recorder needs from an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.demo.project import TASK
from examples.demo.runs import Job, Outcome, run
from trace_recorder import TrajectoryRecorder

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that has ended: the file of its trajectory, and its result."""

    path: Path
    outcome: Outcome


def record(job: Job, directory: Path, path: Path | None = None) -> Recording:
    """Run the agent and record it, in a new file of the directory or in the file `path`."""
    with TrajectoryRecorder(path, task=TASK, provider=job.provider, model=job.model, directory=directory) as recorder:
        outcome = run(job, wrap=recorder.wrap)
        recorder.finalize(success=outcome.success, final_result=outcome.answer)
    return Recording(recorder.trajectory_path, outcome)
