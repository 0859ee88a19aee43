"""A run as one self-contained HTML file, which works from disk and offline: the page, and all answers about the run."""

from __future__ import annotations

from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.comparing import Comparison
from trace_recorder.viewer.interface import RunAnswers
from trace_recorder.viewer.packed_data import packed
from trace_recorder.viewer.page_template import content_security_policy, page_with
from trace_recorder.viewer.parts import WHOLE, Json


def one_file(trajectory: Trajectory, name: str = "run") -> str:
    """Return the HTML of a run. Nothing is cut, and nothing is fetched when it is opened. `name` is its id there."""
    return page_with(_file(trajectory, name), content_security_policy())


def two_runs_file(a: Trajectory, b: Trajectory, names: tuple[str, str]) -> str:
    """Return the HTML of two runs side by side."""
    comparison = Comparison(a, b)
    compared = {"compare": comparison.to_json(), "pairs": comparison.differences()}
    runs = {"a": _file(a, names[0]), "b": _file(b, names[1])}
    return page_with({"kind": "comparison", **runs, "sections": packed(compared)}, content_security_policy())


def _file(trajectory: Trajectory, name: str) -> Json:
    return {"kind": "file", "id": name, "sections": packed(run_data(trajectory, name))}


def run_data(trajectory: Trajectory, name: str) -> Json:
    """Return all answers about a run, by the names of their sections."""
    answers = RunAnswers(trajectory)
    outline = answers.outline(WHOLE)
    counts = outline["counts"]
    interactions, steps = range(1, counts["interactions"] + 1), range(1, counts["steps"] + 1)
    return {
        "run": {"version": "1", "id": name, "writable": False, **outline},
        "messages": answers.messages(range(counts["messages"]), WHOLE),
        "interactions": answers.interactions(interactions, WHOLE),
        "steps": answers.steps(steps, WHOLE),
        "items": answers.items(range(counts["items"])),
        "raw": {str(number): answers.raw(number) for number in interactions},
    }
