"""Every view of every run: runs of every shape, documents without a journal, the corpus, and every prefix of a
journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.formats.corpus_runs import corpus_runs
from tests.formats.runs import RUNS
from tests.journals import folded
from tests.wire.corpus import DIRECTORY
from trace_recorder import Trajectory, load
from trace_recorder.formats.hierarchy.writing import to_hierarchy
from trace_recorder.formats.inspect_ai.writing import to_inspect
from trace_recorder.formats.invariant.writing import to_invariant, to_invariant_dataset
from trace_recorder.formats.spans.writing.spans import to_otlp
from trace_recorder.formats.toolbrain.parsing import parse_code, parse_react
from trace_recorder.formats.toolbrain.turns import format_turns, to_turns
from trace_recorder.reading.document import from_document

VIEWS: dict[str, Callable[[Trajectory], Any]] = {
    "turns": to_turns,
    "turns of code": lambda run: to_turns(run, parse_code),
    "turns of actions": lambda run: to_turns(run, parse_react),
    "walk": lambda run: list(format_turns(to_turns(run))),
    "messages": to_invariant,
    "dataset": lambda run: list(to_invariant_dataset([run])),
    "spans": lambda run: list(to_otlp(run, "both")),
    "inspect": to_inspect,
    "hierarchy by turn": to_hierarchy,
    "hierarchy by message": lambda run: to_hierarchy(run, "message"),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("run", RUNS)
def test_every_view_is_plain_json_and_always_the_same(
    trajectories: Mapping[str, Trajectory], run: str, view: str
) -> None:
    """The output can be written, is read back unchanged, and is the same at a second export."""
    made = VIEWS[view](trajectories[run])

    assert json.loads(json.dumps(made)) == made
    assert VIEWS[view](trajectories[run]) == made


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("run", [name for name in RUNS if name not in {"damaged", "in_flight"}])
def test_a_document_gives_the_same_views_as_its_journal(
    trajectories: Mapping[str, Trajectory], run: str, view: str
) -> None:
    """The views use only values that the document has too."""
    trajectory = trajectories[run]
    document = json.loads(json.dumps(trajectory.to_document()))

    assert VIEWS[view](from_document(document, run)) == VIEWS[view](trajectory)


@pytest.mark.parametrize("run", ["tools", "thinking", "streamed", "own_steps"])
def test_every_prefix_of_a_journal_has_views(paths: Mapping[str, Path], run: str) -> None:
    """A run that broke off after any of its records is exported as far as it was recorded."""
    lines = paths[run].with_suffix(".jsonl").read_bytes().splitlines(keepends=True)

    for end in range(len(lines) + 1):
        run_so_far = folded(b"".join(lines[:end]))
        for view in VIEWS.values():
            json.dumps(view(run_so_far))


@pytest.mark.skipif(not DIRECTORY.is_dir(), reason=f"no corpus in {DIRECTORY}")
def test_every_view_exports_the_corpus(tmp_path: Path) -> None:
    """Every view exports real answers of every dialect. The checks of readers cover all of them."""
    for path in corpus_runs(tmp_path, every=8):
        run = load(path)
        for view in VIEWS.values():
            json.dumps(view(run))
