"""Runs a program as a fork of a run.

It starts the program, waits for the program's end, and reports whether the program reached the first live call.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trace_recorder.attach.subprocess.supervisor import CommandResult, run_recorded
from trace_recorder.rerun.forking import ForkPoint, answer_by_hand, report_not_reached
from trace_recorder.rerun.matching import parse_path
from trace_recorder.rerun.recorded import Recording
from trace_recorder.rerun.subprocess.handoff import ForkHandoff
from trace_recorder.rerun.subprocess.supervisor import describe_unused
from trace_recorder.signal_handlers import ours
from trace_recorder.storage.paths import absolute_path
from trace_recorder.values.structs import asdict


@dataclass(frozen=True, slots=True)
class ForkResult:
    """The result of a forked program: how the program ended, and the mismatches.

    `mismatches` are messages about requests before the first live call that were not recorded. `problem` is a message
    that the program did not reach the first live call, or that lists the earlier calls that the program left out. If
    there is no problem, `problem` is None.
    """

    recorded: CommandResult
    mismatches: list[str]
    problem: str | None


def fork_program(  # noqa: PLR0913 - one argument for each option of the command
    command: Sequence[str],
    path: Path,
    at: str | int,
    *,
    model: str | None = None,
    system: str | None = None,
    answer: str | None = None,
    ignore: Sequence[str] = (),
    speed: float | None = None,
    allow_live: bool = False,
    results_in_any_order: bool = False,
    directory: Path | None = None,
    file: Path | None = None,
) -> ForkResult:
    """Run a command that repeats a run up to a call, and sends that call and all later calls.

    Return how the command ended.

    `at` is the id of the call, or the number of a step, which stands for the first call of that step. `answer` is the
    text of an answer to the call: JSON, or the text of a stream if the call streams. The new file is in `directory`, or
    beside the run.

    Raises CommandError if the command cannot be started, and TrajectoryFormatError if the journal cannot be replayed.
    Raises ValueError if the journal has no such call, and for an invalid answer or an invalid path in `ignore`.
    """
    recording = Recording(path)
    if isinstance(at, str):
        point = ForkPoint(recording, at, None)
    else:
        point = ForkPoint(recording, None, at)
    for ignored in ignore:
        parse_path(ignored)
    by_hand = None
    if answer is not None:
        by_hand = _parse_answer(answer, point)
    with TemporaryDirectory(prefix="trace-recorder-", ignore_cleanup_errors=True) as reports:
        handoff = ForkHandoff(
            str(absolute_path(recording.path)),
            reports,
            tuple(ignore),
            speed,
            allow_live,
            results_in_any_order,
            asdict(point.origin),
            model,
            system,
            _write(by_hand, reports),
            str(absolute_path(directory or recording.path.parent)),
            str(absolute_path(file)) if file else None,
            point.task or shlex.join(command),
        )
        result = run_recorded(command, handoff.recording(), handoff.to_environment())
        return ForkResult(result, handoff.mismatches(), _problem(recording, point, handoff))


def _parse_answer(text: str, point: ForkPoint) -> Any:
    """Return the answer that the user gave for a call. Raises ValueError if the answer is not valid for this call."""
    if point.exchange.streams:
        answer: Any = text
    else:
        try:
            answer = json.loads(text)
        except ours(ValueError) as error:
            raise ValueError(f"the answer to {point} has to be JSON: {error}") from None
        if not isinstance(answer, dict):
            raise ValueError(f"the answer to {point} has to be a JSON object, the body of a response")
    answer_by_hand(answer, point)
    return answer


def _write(answer: Any, reports: str) -> str | None:
    if answer is None:
        return None
    path = Path(reports, "answer.json")
    path.write_text(json.dumps(answer), encoding="utf-8")
    return os.fspath(path)


def _problem(recording: Recording, point: ForkPoint, handoff: ForkHandoff) -> str | None:
    name = recording.path.name
    if not handoff.is_live():
        return report_not_reached(name, point)
    before = filter(point.is_after, recording.exchanges)
    return describe_unused(recording, before, handoff.used_records(), f"{name}, up to {point},")
