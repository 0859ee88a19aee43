"""Makes the row of a run in the output of the command `list`, and in the viewer's list. The index stores both rows.

The row in the viewer's list is made from the beginning and the end of the run's file. If the file is a document, only
the members before the calls and after the steps are read (`reading/document_ends.py`). If it is a journal, the first
line has the start of the run, and the last lines have the end. A document of another tool is read completely.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from io import FileIO
from pathlib import Path

from trace_recorder.errors import TraceRecorderError
from trace_recorder.facts import FinalizeFact, StartFact
from trace_recorder.figures.cost import RunCosts, costs_of_calls, may_have_price
from trace_recorder.figures.rewards import rewards_of
from trace_recorder.reading.document import from_document
from trace_recorder.reading.document_ends import document_ends, document_head
from trace_recorder.storage import journal_reader
from trace_recorder.storage.addresses import Part, remote_address
from trace_recorder.storage.file_system import writer_is_alive
from trace_recorder.storage.journal_reader import Record
from trace_recorder.storage.local_copies import local_copy
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.messages import Payload
from trace_recorder.values.metrics import metrics_of
from trace_recorder.values.origins import ForkedFrom, ReplayOf, name_of, run_origin_of
from trace_recorder.values.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one run in the output of `list`. An unknown value is None."""

    file: str
    """The path relative to the directory that the command was given.

    If the command was given several paths, this equals `path`.
    """
    path: str
    """The path with which the command can open the file from its working directory."""
    trajectory_id: str | None
    parent: str | None
    """The trajectory id of the run that this fork continues, or in which the process of this run was started."""
    session: str | None
    """The caller's name for all runs that belong together."""
    start_time: str | None
    task: str | None
    status: str
    success: bool | None
    provider: str | None
    model: str | None
    llm_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    execution_time: float | None
    agent_steps: int | None
    cost: float | None
    """The sum of the costs that providers stated. `row_with_costs` adds estimates for the other calls."""
    failed_llm_calls: int | None
    failed_tool_calls: int | None
    rewards: dict[str, float]
    forked_from: str | None
    """The file of the run that this fork continues, and the id of the call at which the fork begins."""
    replay_of: str | None
    """The file of the run that this run replays."""
    replayed_llm_calls: int | None
    cost_estimated: bool | None = None
    """Whether a part of the cost is an estimate, or None if there is no cost."""
    calls_without_price: int | None = None
    """How many calls the cost does not include, because they have no price. None if the calls were not read."""


def row_of(file: str, path: Path, run: Trajectory, metrics: Mapping[str, Payload]) -> Row:
    """Return the row of a run with `metrics`. `file` is the name of the run in the list."""
    forked_from = replay_of = None
    origin = run_origin_of(run.metadata)
    if isinstance(origin, ForkedFrom):
        forked_from = f"{origin.file} {origin.interaction_id}"
    elif isinstance(origin, ReplayOf):
        replay_of = name_of(origin)
    return Row(
        file=file,
        path=str(path),
        trajectory_id=run.trajectory_id,
        parent=run.parent,
        session=run.session,
        start_time=run.start_time,
        task=run.task,
        status=run.status,
        success=run.success,
        provider=run.provider,
        model=run.model,
        llm_calls=metrics.get("llm_calls"),
        input_tokens=metrics.get("total_input_tokens", metrics.get("input_tokens")),
        output_tokens=metrics.get("output_tokens"),
        execution_time=run.execution_time,
        agent_steps=metrics.get("agent_steps"),
        cost=metrics.get("cost"),
        failed_llm_calls=metrics.get("failed_llm_calls"),
        failed_tool_calls=metrics.get("failed_tool_calls"),
        rewards=rewards_of(run),
        forked_from=forked_from,
        replay_of=replay_of,
        replayed_llm_calls=metrics.get("replayed_llm_calls"),
    )


def row_of_run(run: Trajectory, path: Path, file: str = "", costs: RunCosts | None = None) -> Row:
    """Return the row of a loaded run, with its costs. `costs` are those of its calls, if the caller has them."""
    row = row_of(file, path, run, run.metrics or metrics_of(run.llm_interactions, run.agent_steps))
    return row_with_costs(row, lambda: costs or costs_of_calls(run.llm_interactions))


def row_json(row: Row) -> Json:
    """Return the members of a row."""
    return {name: getattr(row, name) for name in _MEMBERS}


_MEMBERS = tuple(member.name for member in fields(Row))


def row_of_json(text: str, file: str, path: str) -> Row:
    """Return the row that an index stores as JSON, with this name and path of the run."""
    return Row(**{**json.loads(text), "file": file, "path": path})


def row_with_costs(row: Row, costs_of_run: Callable[[], RunCosts]) -> Row:
    """Return a row with the costs of all calls.

    `costs_of_run` computes them, and is called only if a call may have a price.
    """
    if not may_have_price(row.status, row.llm_calls):
        return replace(row, cost_estimated=stated_costs(row.cost)["cost_estimated"])
    costs = costs_of_run()
    return replace(row, **costs_json(costs))


def ended_summary(path: Path) -> Trajectory | None:
    """Read the document of a run without its calls and steps. This is fast, and enough for a row.

    Return None if the run is still running, if the document cannot be read, or if the document has no metrics.
    """
    if remote_address(path) is not None:
        return _summary_of_copy(path, "document ends", ended_summary)
    try:
        ends = document_ends(path)
        if ends is None:
            document = json.loads(path.read_bytes())
        else:
            document = {**ends, "llm_interactions": []}
        if document["status"] != "running" and document["metrics"] and document["llm_interactions"] is not None:
            return from_document({**document, "llm_interactions": [], "agent_steps": []}, str(path))
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        pass
    return None


def current_summary(path: Path) -> Trajectory | None:
    """Read the document of a run as `ended_summary` does. Return None also if its journal has further records.

    The document lacks the newest records if a process was killed between writing a record and writing the document.
    """
    if remote_address(path) is not None:
        return _summary_of_copy(path, "ends", current_summary)
    summary = ended_summary(path)
    if summary is not None and _covers_journal(path, summary):
        return summary
    return None


def start_time_at(path: Path) -> Payload:
    """Return the start of a run at an address, from the beginning of its file. Return None if it is not stated there.

    A document states the same start as its row.
    """
    try:
        with local_copy(path, "start") as local:
            if path.suffix == ".jsonl":
                return _journal_ends(local)[0].get("start_time")
            with local.open("rb", buffering=0) as file:
                return (document_head(file) or {}).get("start_time")
    except (OSError, TraceRecorderError):  # it is reported when the run is loaded
        return None


def _summary_of_copy(path: Path, part: Part, read: Callable[[Path], Trajectory | None]) -> Trajectory | None:
    """Read the ends of a document at an address. Return None for a journal, and if the address cannot be read."""
    if path.suffix == ".jsonl":
        return None
    try:
        with local_copy(path, part) as local:
            return read(local)
    except OSError:  # it is reported when the run is loaded
        return None


def _covers_journal(path: Path, summary: Trajectory) -> bool:
    """Return whether the document at `path` has all records of its journal, or has no journal.

    The number of the journal's last record tells. If that record is longer than `TAIL_BYTES`, return False.
    """
    try:
        with journal_path_for(path).open("rb", buffering=0) as file:
            records = _records(_tail(file))
    except FileNotFoundError:
        return True
    return bool(records) and records[-1].seq == summary.journal_records


# ── the viewer's list ────────────────────────────────────────────────────────────────────────────────────────────────

Json = dict[str, Payload]
NO_COSTS: Json = {"cost": None, "cost_estimated": None, "calls_without_price": None}

TAIL_BYTES = 8192
"""This many bytes at the beginning and at the end of a journal are read.

If the first line is longer, the whole line is read.
"""
_FIGURES = (
    *("llm_calls", "failed_llm_calls", "replayed_llm_calls", "tool_calls", "failed_tool_calls"),
    *("total_input_tokens", "output_tokens", "cached_input_tokens"),
)


def summary_of(path: Path, name: str, ends: Json | None = None) -> Json:
    """Return the row of a run in the viewer's list. Raises OSError, and the exceptions of `load`.

    `ends` has the members of the document from `document_ends`, if the caller has them.
    """
    if ends is None and path == journal_path_for(path):
        begun, ended = _journal_ends(path)
        if not begun:  # the first line is damaged
            return _from_whole_run(path, name)
        return _viewer_row({**begun, **ended}, name)
    ends = ends or document_ends(path)
    if ends is None:
        return _from_whole_run(path, name)
    if ends.get("status") == "running":
        journal = journal_path_for(path)
        of_journal: Json = {"status": "unknown"}
        if journal.is_file():
            of_journal = _journal_ends(journal)[1]
        ends = {**ends, **of_journal}
    return _viewer_row(ends, name)


def stated_costs(cost: float | None) -> Json:
    """Return the costs of a run whose calls were not read, as members of the run's row.

    `cost` is the sum that the providers stated.
    """
    if cost is None:
        return NO_COSTS
    return {**NO_COSTS, "cost": cost, "cost_estimated": False}


def costs_json(costs: RunCosts) -> Json:
    """Return the costs of all calls of a run, as members of the run's row."""
    known = {"cost": costs.amount, "cost_estimated": costs.estimated}
    return {**known, "calls_without_price": costs.calls_without_price}


def _journal_ends(path: Path) -> tuple[Json, Json]:
    """Read the first and the last records of a journal.

    Return the facts about the start of the run, and those about its end.
    """
    with path.open("rb", buffering=0) as file:
        head = file.read(TAIL_BYTES)
        while b"\n" not in head and (more := file.read(len(head))):
            head += more
        tail = _tail(file)
    begun: Json = {}
    ended: Json = {}
    host = None
    for record in _records(head[: head.find(b"\n") + 1]):
        if isinstance(record.fact, StartFact):
            host = record.fact.host
            begun = _begin_members(record.fact, record.time)
    for record in _records(tail):
        if isinstance(record.fact, FinalizeFact):
            ended = _end_members(record.fact, record.time)
    return begun, ended or _end_by_lock(path, host)


def _tail(file: FileIO) -> bytes:
    file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
    return file.read()


def _records(data: bytes) -> list[Record]:
    return [line for line in journal_reader.read_records(data) if isinstance(line, Record)]


def _begin_members(start: StartFact, time: str) -> Json:
    return {
        "trajectory_id": start.trajectory_id,
        "parent": start.parent,
        "session": start.session,
        "task": start.task,
        "provider": start.provider,
        "model": start.model,
        "start_time": time,
        "metadata": start.metadata,
    }


def _end_members(end: FinalizeFact, time: str) -> Json:
    return {
        "status": end.status,
        "success": end.success,
        "end_time": time,
        "execution_time": end.execution_time,
        "error": end.error,
    }


def _end_by_lock(path: Path, host: str | None) -> Json:
    """Return the status of a run whose journal does not state how it ended. The lock of its writer decides it."""
    alive = writer_is_alive(path, host)
    if alive is None:
        return {"status": "unknown"}
    if alive:
        return {"status": "running"}
    return {"status": "interrupted"}


def _from_whole_run(path: Path, name: str) -> Json:
    from trace_recorder.formats.any_file import load  # noqa: PLC0415 - a list of runs that have ended does not need `load`

    run = load(path)
    metrics = run.metrics or metrics_of(run.llm_interactions, run.agent_steps)
    document = {**run.head(), **run.tail("delta"), "metrics": metrics}
    return _viewer_row(document, name)


def _viewer_row(document: Mapping[str, Payload], name: str) -> Json:
    figures, rewards, error = document.get("metrics"), document.get("rewards"), document.get("error")
    if not isinstance(figures, dict):
        figures = {}
    if not isinstance(rewards, list):
        rewards = []
    if not isinstance(error, dict):
        error = None
    of_run = [reward for reward in rewards if isinstance(reward, dict) and reward.get("step_number") is None]
    return {
        "id": name,
        "trajectory_id": document.get("trajectory_id"),
        "parent": document.get("parent"),
        "session": document.get("session"),
        **{
            key: document.get(key)
            for key in ("task", "status", "success", "model", "provider", "start_time", "end_time")
        },
        "execution_time_seconds": document.get("execution_time"),
        "steps": figures.get("agent_steps"),
        **{key: figures.get(key) for key in _FIGURES},
        **stated_costs(figures.get("cost")),
        "rewards": {str(reward.get("name")): reward.get("value") for reward in of_run},
        "error": error,
        **origin_members(document.get("metadata")),
    }


def origin_members(metadata: Payload) -> Json:
    """Return the members of a row that state whether the run is a fork or a replay, and of which run."""
    members: Json = {"forked_from": None, "replay_of": None}
    origin = run_origin_of(metadata)
    if origin:
        members |= origin.in_metadata()
    return members
