"""The entry of one run in the index: its facts, its row, and the state of its files when they were read.

Kept is only a run that says the same until its files change. A run that goes on is read each time, and so are files of
other tools, which may consist of several files, and files that cannot be read.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from trace_recorder.catalog.counted import counted_of
from trace_recorder.catalog.fact_tables import FactTables
from trace_recorder.catalog.fact_values import Facts
from trace_recorder.catalog.facts import facts_of
from trace_recorder.catalog.file_states import State
from trace_recorder.catalog.rows import Row, ended_summary, row_of, row_with_costs
from trace_recorder.catalog.run_summaries import Json, costs_json, summary_of
from trace_recorder.guard import try_call
from trace_recorder.imports.loader import load_each
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.run_costs import costs_of_calls, may_have_price
from trace_recorder.views.stats import Stats

Task = tuple[Path, bytes, State]
"""A run that is to be read: its path, its name in the index, and the state of its files."""
_TICK_NS = 100_000_000
"""A file that changed less than this before it was read may change again and keep the same time."""
_OWN_BEGINNINGS = (b'{"seq":1,"time":"', b'{\n"task": ')


class NotKept(Enum):
    """Why a run is not in the index."""

    RUNNING = "still running"
    NEW = "changed just now"
    FOREIGN = "of another tool"
    UNREADABLE = "unreadable"
    UNCLEAR = "with files that disagree"


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run as the index keeps it. `is_of_host`: its status depends on the host, because it has no end on file."""

    name: bytes
    state: State
    facts: Facts
    kept: tuple[str, ...]
    """The parts that `Kept` names, in that order, as JSON."""
    is_of_host: bool


def keep(tables: FactTables, kept: KeptRun, run: int | None) -> bool:
    """Put a run into an index, in the place of an earlier one. Return whether a text was deleted."""
    deleted = False
    if run is None:
        run = tables.add(kept.facts)
    else:
        deleted = tables.change(run, kept.facts)
    values = run, kept.name, *kept.state, kept.is_of_host
    tables.connection.execute("REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    tables.connection.execute("REPLACE INTO kept VALUES (?, ?, ?, ?, ?)", (run, *kept.kept))
    return deleted


def kept_run(task: Task) -> KeptRun | NotKept:
    """Read a run for the index. `task` is its path, its name in the index, and the state of its files."""
    path, name, state = task
    began = time.time_ns()

    def read() -> KeptRun | NotKept:
        runs = load_each(path)
        run = next(runs)
        if not _is_own(path):
            return NotKept.FOREIGN
        facts, row = facts_of(run), row_of_run(run, path)
        if run.status in {"running", "unknown"}:
            return NotKept.RUNNING
        if max(state[0], state[2]) > began - _TICK_NS:
            return NotKept.NEW
        if not facts.is_exact or not _is_listed_so(path, run):
            return NotKept.UNCLEAR
        others = map(json.dumps, (_summary(path, run), counted_of(run, facts)))
        kept = json.dumps(asdict(row)), _stats(run), *others
        return KeptRun(name, state, facts, kept, run.end_time is None)

    return try_call(read, lambda _: NotKept.UNREADABLE)


def _stats(run: Trajectory) -> str:
    stats = Stats()
    stats.add(run)
    stats.to_json()  # a run of which this fails is not counted
    return stats.to_text()


def _summary(path: Path, run: Trajectory) -> tuple[Json, Json | None]:
    """Return the entry of a run in the list of the viewer, and its costs if a call may have a price."""
    summary = summary_of(path, "")
    may_cost = may_have_price(summary["status"], summary["total_input_tokens"], summary["output_tokens"])
    return summary, costs_json(costs_of_calls(run.llm_interactions)) if may_cost else None


def row_of_run(run: Trajectory, path: Path, file: str = "") -> Row:
    """Return the row of a run that was loaded, with its costs."""
    row = row_of(file, path, run, run.metrics or metrics_of(run.llm_interactions, run.agent_steps))
    return row_with_costs(row, lambda: costs_of_calls(run.llm_interactions))


def _is_own(path: Path) -> bool:
    journal = journal_path_for(path)
    for file in (journal, path) if journal.is_file() else (path,):
        with file.open("rb") as opened:
            if opened.read(32).startswith(_OWN_BEGINNINGS):
                return True
    return False


def _is_listed_so(path: Path, run: Trajectory) -> bool:
    """Whether the document, which `list` reads, says of the run what the journal says."""
    summary = ended_summary(path)
    if summary is None:
        return True
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    facts = [row_of("", path, one, one.metrics or metrics) for one in (summary, run)]
    return facts[0] == facts[1] and summary.metadata == run.metadata and summary.error == run.error
