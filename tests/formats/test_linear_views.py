"""The work of each view grows in proportion to its input and output, also if the agent edits its history.

The work is counted in executed lines of our code, so that no load of the machine changes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import histories
from tests.counting import lines
from tests.formats.exporting import exported
from tests.searching import part_of
from trace_recorder import load
from trace_recorder.cli.show import Show
from trace_recorder.cli.stats import count_run
from trace_recorder.figures.comparison.trajectory_diff import diff
from trace_recorder.formats.format_writer import EXPORT_FORMATS
from trace_recorder.reading.steps_and_calls import steps_and_calls
from trace_recorder.values.messages import Payload
from trace_recorder.viewer.interface import RunAnswers

FEW, MANY = 20, 60
MOST = 1.3
"""At most this many times as much work per byte in a run three times as long. Quadratic work would take three times as
much.
"""
EDITING = (histories.moving_mark, histories.clock, histories.elided_outputs)


def shown(path: Path) -> list[str]:
    show = Show(load(path), full=True)
    return [entry.text for part in steps_and_calls(load(path)) for entry in show.part(part)]


VIEWS: dict[str, Callable[[Path], Payload]] = {
    "document": lambda path: load(path).to_document(),
    "delta document": lambda path: load(path).to_document("delta"),
    "show": shown,
    "diff": lambda path: len(diff(load(path), load(path)).steps),
    "stats": lambda path: repr(count_run(path)),
    "outline": lambda path: RunAnswers(load(path)).outline(),
    **{name: lambda path, name=name: exported(name, load(path), path.parent) for name in EXPORT_FORMATS},
}
WITH_WHOLE_PROMPTS = {"document", "atif", "openai", "otlp", "session-traces", "toolbrain", "traces", "trae", "trl"}
"""Formats that write each prompt of an edited history in full. They are tried with one pattern, because they take
longer.
"""
CASES = [
    pytest.param(view, pattern, id=f"{view}-{pattern.__name__}")
    for number, view in enumerate(VIEWS)
    for pattern in (EDITING[1:2] if view in WITH_WHOLE_PROMPTS else part_of(EDITING, len(EDITING), number % 3))
]
"""In CI, each view is tried with one pattern, and each pattern with several views."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a short and a long run of each pattern. Its tool outputs are short."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "TURN", 20)
        for pattern in EDITING:
            for turns in (FEW, MANY):
                histories.record(folder / f"{pattern.__name__}_{turns}.json", pattern, turns)
    return folder


def lines_per_byte(view: Callable[[Path], Payload], path: Path) -> float:
    """Return how many lines run for each byte of input or output, whichever has more bytes."""
    made: list[Payload] = []
    counted = lines(lambda: made.append(view(path)))
    return counted / max(path.with_suffix(".jsonl").stat().st_size, len(json.dumps(made, default=repr)))


@pytest.mark.parametrize(("view", "pattern"), CASES)
def test_the_work_per_byte_does_not_grow_with_the_run(runs: Path, view: str, pattern: histories.Pattern) -> None:
    """The history of these runs is edited at each call."""
    few, many = (lines_per_byte(VIEWS[view], runs / f"{pattern.__name__}_{turns}.json") for turns in (FEW, MANY))

    assert many <= MOST * few
