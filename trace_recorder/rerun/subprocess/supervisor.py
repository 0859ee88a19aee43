"""The process that replays a program: starts it, waits, and reports the calls that were not recorded."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trace_recorder.attach.subprocess.supervisor import python_path, run_process
from trace_recorder.rerun.matching import parse_path
from trace_recorder.rerun.recorded import Recording
from trace_recorder.rerun.replayer import not_asked_for, report_unused
from trace_recorder.rerun.subprocess.handoff import ReplayHandoff

_NO_KEY = "none-is-needed-for-a-replay"
PLACEHOLDER_KEYS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": _NO_KEY,
    "ARK_API_KEY": _NO_KEY,
    "AZURE_OPENAI_API_KEY": _NO_KEY,
    "DEEPSEEK_API_KEY": _NO_KEY,
    "GEMINI_API_KEY": _NO_KEY,
    "GOOGLE_API_KEY": _NO_KEY,
    "GROQ_API_KEY": _NO_KEY,
    "MISTRAL_API_KEY": _NO_KEY,
    "OPENAI_API_KEY": _NO_KEY,
    "OPENROUTER_API_KEY": _NO_KEY,
    "TOGETHER_API_KEY": _NO_KEY,
    "XAI_API_KEY": _NO_KEY,
}
"""Variables that SDKs require before they send anything. A variable that is set stays as it is."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How a replayed program ended: its exit code, or -n where signal n ended it; and the mismatches.

    `mismatches` are its calls that were not recorded, each with what differs; `unused` says which recorded calls
    it did not make, and is None if there are none.
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
) -> ReplayResult:
    """Run a command, answer its Python processes from a journal, and return how it ended.

    Raises CommandError where it cannot be started, TrajectoryFormatError where the journal cannot be replayed, and
    ValueError for a path in `ignore` that is none.
    """
    recording = Recording(path)
    for ignored in ignore:
        parse_path(ignored)
    reports = tempfile.mkdtemp(prefix="trace-recorder-")
    handoff = ReplayHandoff(str(recording.path.absolute()), reports, tuple(ignore), speed, tools)
    environment = {**PLACEHOLDER_KEYS, **os.environ, **handoff.to_environment(), "PYTHONPATH": python_path()}
    try:
        _, code = run_process(command, environment)
        return ReplayResult(code, handoff.mismatches(), _unused(recording, handoff.given()))
    finally:
        shutil.rmtree(reports, ignore_errors=True)


def _unused(recording: Recording, given: set[int]) -> str | None:
    left = [one for one in recording.exchanges if one.begin.seq not in given]
    tools = [one for one in recording.tools if one.begin.seq in given]
    unused = [one.interaction_id for one in not_asked_for(left, tools)]
    return report_unused(recording.path.name, unused) if unused else None
