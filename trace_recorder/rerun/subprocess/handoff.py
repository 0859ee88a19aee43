"""The instructions for the processes of a replayed or forked program, in one environment variable.

All processes replay one journal. Each process notes in files which recorded calls it has used, so that no other process
uses the same call. The notes of a process remain if the process is killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from trace_recorder.attach.handoff import Handoff, read_reports, write_report
from trace_recorder.rerun.matching import Match, results_in_any_order
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.values.origins import ForkedFrom

_USED = "used-"
_MISMATCH = "mismatch-"
_LIVE = "live"


@dataclass(frozen=True, slots=True)
class SharedRecording:
    """The instructions for all processes of a program: the journal, and the directory for notes and reports."""

    VARIABLE: ClassVar[str]
    """The environment variable with the instructions, as JSON."""

    journal: str
    reports: str
    """A directory that exists until the program ends.

    It has a file `used-N` for each used record N, and a file `mismatch-…` with the message of each mismatch.
    """
    ignore: tuple[str, ...] = ()
    speed: float | None = None
    allow_live: bool = False
    """Whether clients that are not answered from the recording may connect to models."""
    results_in_any_order: bool = False

    def to_environment(self) -> dict[str, str]:
        """Return the instructions as an environment variable."""
        return {self.VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the instructions from an environment.

        Return None if the environment has no instructions. Raises ValueError or TypeError if the instructions are
        invalid.
        """
        text = environment.get(cls.VARIABLE)
        if not text:
            return None
        return cls(**json.loads(text))

    @property
    def match(self) -> Match | None:
        """The function that compares requests, or None for the usual comparison."""
        return results_in_any_order if self.results_in_any_order else None

    def claim(self, number: int) -> bool:
        """Note that the record of this number is used. Return False if a process has used the record before."""
        path = Path(self.reports, f"{_USED}{number}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except ours(FileExistsError):
            return False
        except ours(OSError):  # the supervisor has ended before this process
            return True
        return True

    def used_records(self) -> set[int]:
        """Return the numbers of the records that have been used."""
        return {int(file.name.removeprefix(_USED)) for file in Path(self.reports).glob(f"{_USED}*")}

    def report_mismatch(self, text: str) -> None:
        """Report the message about a call that the recording does not answer."""
        write_report(self.reports, _MISMATCH, text.encode("utf-8", "backslashreplace"))

    def mismatches(self) -> list[str]:
        """Return the messages of all mismatches in order.

        Equal messages appear once, because an SDK repeats a failed request, and each time gets the same message.
        """
        return [text.decode() for text in read_reports(self.reports, _MISMATCH)]


@dataclass(frozen=True, slots=True)
class ReplayHandoff(SharedRecording):
    """The instructions for a replay."""

    VARIABLE = "TRACE_RECORDER_REPLAY"

    tools: Literal["recorded", "live"] = "recorded"
    trajectory_id: str | None = None
    """The id of the run that is replayed."""


@dataclass(frozen=True, slots=True)
class ForkHandoff(SharedRecording):
    """The instructions for a fork."""

    VARIABLE = "TRACE_RECORDER_FORK"

    origin: Mapping[str, Any] = field(default_factory=dict)
    """The parent run and the call at which the fork begins, as the members of `ForkedFrom`."""
    model: str | None = None
    system: str | None = None
    answer: str | None = None
    """A file with the answer to the first live call, as JSON: an object, or the text of a stream."""
    directory: str = ""
    file: str | None = None
    task: str | None = None

    def forked_from(self) -> ForkedFrom:
        """Return the parent run, and its call at which the fork begins."""
        return ForkedFrom(**self.origin)

    def recording(self) -> Handoff:
        """Return the instructions for the recording, which writes its reports to the same directory."""
        return Handoff(self.directory, self.reports, self.file, self.task)

    def go_live(self) -> None:
        """Note that a process has made a live call."""
        with suppress(OSError):
            Path(self.reports, _LIVE).touch()

    def is_live(self) -> bool:
        """Return whether a process has made a live call."""
        return Path(self.reports, _LIVE).exists()
