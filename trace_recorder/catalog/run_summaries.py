"""The entry of one run in the viewer's list, read from the beginning and the end of its files.

From a document, only the members before its calls and after its steps are read (`imports/document_ends.py`). A journal
has the start of the run in its first line, and the end in its last lines. Documents that other tools wrote are loaded
as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trace_recorder.imports.document_ends import document_ends
from trace_recorder.imports.loader import load
from trace_recorder.storage import journal_reader
from trace_recorder.storage.file_locks import writer_is_alive
from trace_recorder.storage.journal_reader import Record
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import are_of_older_version, metrics_of
from trace_recorder.values.origins import run_origin_of
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.cost import RunCosts

Json = dict[str, Payload]
NO_COSTS: Json = {"cost": None, "cost_estimated": None, "calls_without_price": None}

TAIL_BYTES = 8192
"""How many bytes of the beginning and of the end of a journal are read first."""
_FIGURES = (
    *("llm_calls", "failed_llm_calls", "replayed_llm_calls", "tool_calls", "failed_tool_calls"),
    *("total_input_tokens", "output_tokens", "cached_input_tokens"),
)


def summary_of(path: Path, name: str) -> Json:
    """Return the row of a run. Raises what `load` raises, and OSError."""
    journal = journal_path_for(path)
    if path == journal:
        return _from_journal(path, name)
    ends = document_ends(path)
    if ends is None or are_of_older_version(_figures_of(ends)):
        return _from_trajectory(load(path), name)
    if ends.get("status") == "running":
        ends = {**ends, **_end_of_running(journal)}
    return _row(ends, name)


def stated_costs(cost: float | None) -> Json:
    """Return the costs of a run whose calls were not read. `cost` is the sum that the providers stated."""
    return {**NO_COSTS, "cost": cost, "cost_estimated": None if cost is None else False}


def costs_json(costs: RunCosts) -> Json:
    """Return the costs of all calls of a run, as members of its row."""
    known = {"cost": costs.amount, "cost_estimated": costs.estimated}
    return {**known, "calls_without_price": costs.calls_without_price}


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _end_of_running(journal: Path) -> Json:
    """Return the end of a run from its journal, because the document still says that the run is running."""
    if not journal.is_file():
        return {"status": "unknown"}
    return _journal_ends(journal)[1]


def _journal_ends(path: Path) -> tuple[Json, Json]:
    """Return the start of a run from the first record of its journal, and the end of the run from the last records."""
    with path.open("rb", buffering=0) as file:
        head = file.read(TAIL_BYTES)
        while b"\n" not in head and (more := file.read(len(head))):
            head += more
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        tail = file.read()
    begun = _records(head[: head.find(b"\n") + 1], "start")
    ends = _records(tail, "finalize")
    start = begun[0] if begun else None
    return _begun(start), _ended(path, start, ends[-1] if ends else None)


def _records(data: bytes, kind: str) -> list[Record]:
    return [one for one in journal_reader.read(data) if isinstance(one, Record) and one.kind == kind]


def _begun(start: Record | None) -> Json:
    return {**start.data, "start_time": start.time} if start else {}


def _ended(path: Path, start: Record | None, end: Record | None) -> Json:
    if end is not None:
        return {"end_time": end.time, **end.data}
    alive = writer_is_alive(path, start.data.get("host") if start else None)
    return {"status": "unknown" if alive is None else "running" if alive else "interrupted"}


def _from_journal(path: Path, name: str) -> Json:
    """Return the row of a journal without a document, from the ends of the journal.

    If the first line is damaged, read the whole journal.
    """
    begun, ended = _journal_ends(path)
    return _row({**begun, **ended}, name) if begun else _from_trajectory(load(path), name)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_trajectory(run: Trajectory, name: str) -> Json:
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    document = {**run.head(), **run.tail("delta"), "metrics": metrics}
    return _row(document, name)


def _row(document: Mapping[str, Payload], name: str) -> Json:
    figures = _figures_of(document)
    return {
        "id": name,
        "trajectory_id": document.get("trajectory_id"),
        **{
            key: document.get(key)
            for key in ("task", "status", "success", "model", "provider", "start_time", "end_time")
        },
        "execution_time_seconds": document.get("execution_time"),
        "steps": figures.get("agent_steps"),
        **{key: figures.get(key) for key in _FIGURES},
        **stated_costs(figures.get("cost")),
        "rewards": _rewards(document.get("rewards")),
        "error": _error(document.get("error")),
        **origin_members(document.get("metadata")),
    }


def _figures_of(document: Mapping[str, Payload]) -> Mapping[str, Payload]:
    metrics = document.get("metrics")
    return metrics if isinstance(metrics, dict) else {}


def origin_members(metadata: Payload) -> Json:
    """Return the origin of a run: the run and the call that it continues, or the run that it repeats."""
    origin = run_origin_of(metadata)
    return {"forked_from": None, "replay_of": None} | (origin.in_metadata() if origin else {})


def _rewards(rewards: Payload) -> dict[str, Payload]:
    """Return the last value of each reward of the whole run, by name."""
    listed = rewards if isinstance(rewards, list) else []
    whole = [one for one in listed if isinstance(one, dict) and one.get("step_number") is None]
    return {str(one.get("name")): one.get("value") for one in whole}


def _error(error: Payload) -> Payload:
    return error if isinstance(error, dict) else None
