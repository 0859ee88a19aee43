"""Runs a program as a replay of a run: starts the program, waits for its end, and reports mismatches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from trace_recorder.attach.subprocess.supervisor import python_path, run_process
from trace_recorder.rerun.matching import parse_path
from trace_recorder.rerun.placeholder_keys import missing_keys
from trace_recorder.rerun.recorded import RecordedExchange, Recording
from trace_recorder.rerun.replayer import calls_outside_tools, report_unused
from trace_recorder.rerun.subprocess.handoff import ReplayHandoff
from trace_recorder.storage.paths import absolute_path


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replayed program: how the program ended, and the mismatches.

    `code` is the program's exit code, or -n if signal n ended the program.

    `mismatches` are messages about the program's calls that were not recorded. `unused` is a message that lists the
    recorded calls that the program did not make, or None.
    """

    code: int
    mismatches: list[str]
    unused: str | None


def replay_program(
    command: Sequence[str],
    path: Path,
    *,
    ignore: Sequence[str] = (),
    speed: float | None = None,
    tools: Literal["recorded", "live"] = "recorded",
    allow_live: bool = False,
    results_in_any_order: bool = False,
) -> ReplayResult:
    """Run a command, answer its Python processes from a journal, and return how the command ended.

    Raises CommandError if the command cannot be started, TrajectoryFormatError if the journal cannot be replayed, and
    ValueError for an invalid path in `ignore`.
    """
    recording = Recording(path)
    for ignored in ignore:
        parse_path(ignored)
    with TemporaryDirectory(prefix="trace-recorder-", ignore_cleanup_errors=True) as reports:
        handoff = ReplayHandoff(
            str(absolute_path(recording.path)),
            reports,
            tuple(ignore),
            speed,
            allow_live,
            results_in_any_order,
            tools,
            recording.trajectory_id,
        )
        keys = missing_keys(os.environ)
        environment = {**os.environ, **keys, **handoff.to_environment(), "PYTHONPATH": python_path()}
        _, code = run_process(command, environment)
        unused = describe_unused(recording, recording.exchanges, handoff.used_records(), recording.path.name)
        return ReplayResult(code, handoff.mismatches(), unused)


def describe_unused(
    recording: Recording, expected: Iterable[RecordedExchange], used: set[int], name: str
) -> str | None:
    """Return a message that lists the expected calls that were not used, or None if all were used.

    `used` has the numbers of used records. `name` is the name of the recording in the message.
    """
    tools = [tool for tool in recording.tools if tool.seq in used]
    calls = calls_outside_tools([call for call in expected if call.seq not in used], tools)
    if not calls:
        return None
    return report_unused(name, [call.interaction_id for call in calls])
