"""What the process that replays or forks a program passes to the program's processes: one environment variable.

All of them replay one journal. Which recorded calls have been given is settled among them by files: a call is given
once, whichever process makes it, and none of that is lost with a process that is killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from trace_recorder.attach.subprocess.handoff import Handoff, read_reports, write_report
from trace_recorder.rerun.matching import Match
from trace_recorder.rerun.results_order import results_in_any_order
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.values.origins import ForkedFrom

_GIVEN = "given-"
_MISMATCH = "mismatch-"
_LIVE = "live"


@dataclass(frozen=True, slots=True)
class SharedRecording:
    """What the processes of a program share: which journal, and where to note which records were used."""

    VARIABLE: ClassVar[str]
    """The environment variable that holds the order, as JSON."""

    journal: str
    reports: str
    """A directory, there while the program is waited for: a file `given-N` for each record that was given, N being its
    number, and a file `mismatch-…` with the text of each mismatch."""
    ignore: tuple[str, ...] = ()
    speed: float | None = None
    allow_live: bool = False
    """Whether clients that are not answered from the recording may connect to models."""
    results_in_any_order: bool = False

    def to_environment(self) -> dict[str, str]:
        """Return the order as a variable of an environment."""
        return {self.VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the order in an environment; None without one. Raises ValueError and TypeError for anything else."""
        text = environment.get(cls.VARIABLE)
        return cls(**json.loads(text)) if text else None

    @property
    def match(self) -> Match | None:
        """What compares requests; None if they have to be equal."""
        return results_in_any_order if self.results_in_any_order else None

    def claim(self, number: int) -> bool:
        """Note that the record of this number is used; False if it was used before, by any process."""
        path = Path(self.reports, f"{_GIVEN}{number}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except ours(FileExistsError):
            return False
        except ours(OSError):  # the supervisor has ended: this process outlives the program
            return True
        return True

    def given(self) -> set[int]:
        """Return the numbers of the records that have been used."""
        return {int(file.name.removeprefix(_GIVEN)) for file in Path(self.reports).glob(f"{_GIVEN}*")}

    def report_mismatch(self, text: str) -> None:
        """Report a call that the recording does not answer."""
        write_report(self.reports, _MISMATCH, text.encode("utf-8", "backslashreplace"))

    def mismatches(self) -> list[str]:
        """Return the texts of all mismatches in their order, equal ones once: an SDK retries what fails."""
        return [text.decode() for text in read_reports(self.reports, _MISMATCH)]


@dataclass(frozen=True, slots=True)
class ReplayHandoff(SharedRecording):
    """To replay, and whether tools run."""

    VARIABLE = "TRACE_RECORDER_REPLAY"

    tools: Literal["recorded", "live"] = "recorded"
    trajectory_id: str | None = None
    """The run that is replayed."""


@dataclass(frozen=True, slots=True)
class ForkHandoff(SharedRecording):
    """To fork: from which call, what is live then, and what is recorded where."""

    VARIABLE = "TRACE_RECORDER_FORK"

    origin: Mapping[str, Any] = field(default_factory=dict)
    """The run and the call, as `ForkedFrom` has them."""
    model: str | None = None
    system: str | None = None
    answer: str | None = None
    """A file with the answer to the call in `origin`, as JSON: an object, or the text of a stream."""
    directory: str = ""
    file: str | None = None
    task: str | None = None

    def forked_from(self) -> ForkedFrom:
        """The run that is continued, and from where."""
        return ForkedFrom(**self.origin)

    def recording(self) -> Handoff:
        """Return the instructions for the recording. It writes its reports to the directory of the fork's."""
        return Handoff(self.directory, self.reports, self.file, self.task)

    def go_live(self) -> None:
        """Note that a call has been made."""
        with suppress(OSError):
            Path(self.reports, _LIVE).touch()

    def is_live(self) -> bool:
        """Whether a call has been made, by whichever process."""
        return Path(self.reports, _LIVE).exists()
