"""A call that was put into a run without a context is marked wherever the call is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chat_calls import asked, call, said
from tests.cli.invoking import invoke
from trace_recorder import TrajectoryRecorder, load, to_dataframe
from trace_recorder.formats.atif.writing import to_atif
from trace_recorder.formats.inspect_ai.writing import to_inspect
from trace_recorder.formats.invariant.writing import to_invariant
from trace_recorder.formats.spans.writing.spans import to_otlp
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.viewer.one_file import run_data


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document of two calls, of which the second is marked."""
    made = tmp_path_factory.mktemp("inferred") / "run.json"
    with TrajectoryRecorder(made, strict=True) as recorder:
        call(recorder, asked("one"), said("1"))
        call(recorder, asked("two"), said("2"))
    document = json.loads(made.read_bytes())
    document["llm_interactions"][1]["run_inferred"] = True
    made.with_suffix(".jsonl").unlink()
    made.write_text(json.dumps(document))
    return made


FORMATS: dict[str, Callable[[Trajectory], object]] = {
    "atif": to_atif,
    "inspect": to_inspect,
    "invariant": to_invariant,
    "otlp": lambda run: list(to_otlp(run)),
    "viewer": lambda run: [entry for entry in run_data(run, "run")["run"]["interactions"] if entry["run_inferred"]],
    "table": lambda run: [row for row in to_dataframe(run, library="polars").to_dicts() if row["run_inferred"]],
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_view_marks_only_the_inferred_call(name: str, path: Path) -> None:
    assert json.dumps(FORMATS[name](load(path)), default=str).count("run_inferred") == 1


def test_show_says_that_a_run_was_inferred(path: Path) -> None:
    lines = [" ".join(line.split()) for line in invoke("show", path).output.splitlines()]
    assert [line for line in lines if "inferred" in line] == ["run inferred, because the call had no context"]
