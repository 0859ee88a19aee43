"""The checks of what a dead agent left, for any way of dying.

Every reported call is in the journal with its answer. Every call that the model received is there. No recorded value is
wrong. Every document is JSON. The run counts as interrupted. The journal is complete except for a torn end. No leftover
blocks the next run. A verdict names each violation.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.answering import PIECES, answer_to
from tests.faults.killing import SIGNAL, Death, Kill
from tests.faults.zygote import EXIT_CODE
from trace_recorder import LLMInteraction, Trajectory, load
from trace_recorder.reading.validate import validate
from trace_recorder.storage.redaction.partial_secrets import unfinished

EXIT = {"SIGKILL": -9, "SIGTERM": -15, "exception": 1, "exception in a block": 1}
STREAM_DELAY = 1.5
"""Pieces of a stream that came more than this many seconds before a kill must be in the journal.

The contract says one.
"""
DOCUMENT_DELAY = 3.0
"""The document shows a call after a fifth of a second, or after 200 times the cost of the next write. A small
document shows it within half a second, on a busy machine within some seconds.
"""

ENDS_ASIDE = frozenset({"aiobotocore"})
"""Agents that read long streams in an event loop. When the caller has the last piece, all of the text is on file. A
thread writes the record of the end after that.
"""
LARGE = 256 * 1024
"""Larger documents than this are written less often."""

Interactions = dict[str, LLMInteraction]
"""The calls in the journal, by their question."""


@dataclass(slots=True)
class Verdict:
    """The faults that one death left. `lost` and `unparsable` are parts of `problems`. All three should be empty."""

    reported: int = 0
    in_flight: int = 0
    shown: int = 0
    torn: bool = False
    in_snapshot: bool = False
    large: bool = False
    lost: list[str] = field(default_factory=list)
    unparsable: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Return all faults."""
        return [f"lost: {one}" for one in self.lost] + [f"no JSON: {one}" for one in self.unparsable] + self.others


def judge(kill: Kill, death: Death, directory: Path, *, timed: bool = False) -> Verdict:
    """Return the verdict on an agent's directory.

    `timed` also checks that records were written in time before the kill, which a busy machine delays.
    """
    verdict = Verdict(reported=len(death.said("answered")) + len(death.said("step")))
    verdict.others += _ending(kill, death)
    documents = _documents(directory, verdict)
    journal = directory / "run.jsonl"
    # The journal is empty if the process was killed before its first record.
    if journal.exists() and (journal.stat().st_size or death.reports):
        trajectory = load(journal)
        on_file = {str(call.input_messages[-1].content): call for call in trajectory.llm_interactions}
        verdict.lost += (
            _lost(kill, death, on_file)
            + (_lost_pieces(kill, death, on_file) if timed else [])
            + _lost_steps(death, trajectory)
        )
        verdict.others += _wrong(on_file, kill.length) + _status(kill, death, trajectory)
        flying = set(death.asked) - set(death.said("answered"))
        verdict.in_flight, verdict.shown = len(flying), len(flying & set(on_file))
        verdict.others += _files(journal, verdict)
    elif death.reports:
        verdict.lost += ["the journal"]
    if timed and not verdict.large:
        verdict.lost += _lost_in(documents.get("run.json"), death)
    return verdict


def _ending(kill: Kill, death: Death) -> list[str]:
    problems = []
    expected = EXIT.get(kill.dying, EXIT_CODE)
    if death.exit_code != expected:
        problems.append(f"it ended with {death.exit_code} and not with {expected}: {death.complaints[-500:]}")
    if "could not" in death.complaints or "unrecorded" in death.complaints:
        problems.append(f"it complained: {death.complaints}")
    return problems


def _documents(directory: Path, verdict: Verdict) -> dict[str, Any]:
    """Read every document as any tool does, and return the faults."""
    documents = {}
    for path in directory.iterdir():
        verdict.in_snapshot = verdict.in_snapshot or path.suffix == ".tmp"
        if path.suffix == ".json":
            verdict.large = verdict.large or path.stat().st_size > LARGE
            try:
                documents[path.name] = json.loads(path.read_bytes())
            except ValueError as error:
                verdict.unparsable.append(f"{path.name}: {error}")
    return documents


def _lost(kill: Kill, death: Death, on_file: Interactions) -> list[str]:
    """Return the missing calls: reported answers, and requests that the model got."""
    answered = death.said("answered")
    lost = [f"the call {one}" for one in answered if not _is_whole(on_file.get(one), one, kill)]
    return lost + [f"the call in flight {one}" for one in death.asked if one not in on_file]


def _lost_pieces(kill: Kill, death: Death, on_file: Interactions) -> list[str]:
    """Return the streams that lack received pieces, except for pieces at the end that may continue as a secret."""
    pieces = death.said_before("piece", death.killed_at - STREAM_DELAY)
    open_ones = set(pieces) & set(on_file) - set(death.said("answered"))
    waits = kill.dying in SIGNAL
    return [
        f"pieces of {one}"
        for one in open_ones
        if (on_file[one].raw_stream or "").count("data: ") < _due(one, kill.length, pieces.count(one), waits=waits)
    ]


def _due(question: str, length: int, came: int, *, waits: bool) -> int:
    """Return how many of the received pieces must be in the journal.

    A piece waits if a secret may begin in it. The piece before it waits too, if that one ends within the same word.
    """
    answer = answer_to(question, length)
    size = len(answer) // PIECES + 1
    due = came
    while waits and 0 < due * size < len(answer):
        known = answer[: due * size]
        if due < came and answer[due * size].isspace():
            known += answer[due * size]
        begin = len(known) - unfinished(known)
        if begin >= due * size:
            break
        due = begin // size
    return due


def _is_whole(one: LLMInteraction | None, question: str, kill: Kill) -> bool:
    has_end = one is not None and (one.complete or kill.variant in ENDS_ASIDE)
    return one is not None and has_end and one.response.content == answer_to(question, kill.length)


def _lost_steps(death: Death, trajectory: Trajectory) -> list[str]:
    steps = {str(step.step_number) for step in trajectory.agent_steps if not step.derived}
    return [f"the step {one}" for one in death.said("step") if one not in steps]


def _lost_in(document: Any, death: Death) -> list[str]:
    """Return the missing parts of a small document: everything that was reported some time before must be there."""
    if document is None:
        return ["the document"] if death.reports else []
    there = {
        call["input_messages"][-1]["content"]
        for call in document["llm_interactions"]
        if call["response"].get("content")
    }
    reported = death.said_before("answered", death.killed_at - DOCUMENT_DELAY)
    return [f"the call {one} in the document" for one in reported if one not in there]


def _wrong(on_file: Interactions, length: int) -> list[str]:
    """Return the recorded answers that differ from the model's. A cut call may have a beginning of the model's
    answer.
    """
    wrong = []
    for question, one in on_file.items():
        answer, found = answer_to(question, length), (one.response.content if one.response else None) or ""
        if not (found == answer if one.complete else answer.startswith(found)):
            wrong.append(f"the answer to {question}: {found[:100]!r}")
    return wrong


def _status(kill: Kill, death: Death, trajectory: Trajectory) -> list[str]:
    """Return a problem if the status is wrong. If the agent had reported nothing, its host may be unknown."""
    status = trajectory.status
    known = kill.dying.endswith("in a block") or kill.dying == "exception"  # a process does not know its own exit code
    expected = "failed" if known else "interrupted"
    return [] if status == expected or not death.reports else [f"the status is {status} and not {expected}"]


def _files(journal: Path, verdict: Verdict) -> list[str]:
    """Return faults of the files: damage, a locked journal, or files that look like documents."""
    report = validate(journal)
    verdict.torn = any("ends in the middle" in finding.what for finding in report.findings)
    problems = [f"{finding.where}: {finding.what}" for finding in report.findings if finding.severity == "error"]
    visible = {path.name for path in journal.parent.iterdir() if not path.name.startswith(".")}
    if not visible <= {"run.json", "run.jsonl"}:
        problems.append(f"files: {sorted(visible)}")
    with journal.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problems.append("the journal is locked")
    return problems
