"""Checks that the document of a run equals its journal."""

from __future__ import annotations

import json

from trace_recorder import TrajectoryRecorder, load
from trace_recorder.reading.document import expand_deltas
from trace_recorder.values.messages import Payload


def document(recorder: TrajectoryRecorder) -> Payload:
    """Return the document on the disk."""
    return json.loads(recorder.trajectory_path.read_bytes())


def agrees(recorder: TrajectoryRecorder) -> bool:
    """Return whether the document on the disk agrees with the whole journal."""
    written = document(recorder)
    whole = load(recorder.trajectory_path).to_document("inline")
    return bool(expand_deltas(written) == {**whole, "history": written["history"]})


def agrees_when_saved(recorder: TrajectoryRecorder) -> bool:
    """Return whether the document agrees with the whole journal after it was saved."""
    recorder.save_trajectory()
    return agrees(recorder)


def step_numbers(recorder: TrajectoryRecorder) -> list[Payload]:
    """Return the numbers of the steps in the document."""
    return [step["step_number"] for step in document(recorder)["agent_steps"]]
