"""The request to record an agent.

A command such as `trace-recorder run` passes the request to the agent's processes in an environment variable. The
variable reaches every descendant process. A process without the variable records nothing. The first process that asks
for its file gets the file that the user named.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from trace_recorder.recording import process
from trace_recorder.signal_handlers import ours, suppress

VARIABLE = "TRACE_RECORDER_RUN"
"""The environment variable that has the `Handoff` as JSON."""
_FIRST = "first"
_LIBRARY = "library"
_RUN = "run-"
_UNSEEN = "unseen-"


def report_own_runs() -> None:
    """Report the runs of the program's own recorders to the command, unless this process reports its runs already.

    The recording for the command starts when the process imports an HTTP library. A run may begin before that.
    Raises ValueError or TypeError if the environment variable has other content.
    """
    if VARIABLE in os.environ and not process.run_listeners:
        handoff = Handoff.from_environment(os.environ)
        if handoff is not None:
            process.run_listeners.append(handoff.report_run)


def write_report(reports: str, kind: str, text: bytes) -> None:
    """Write a report into a new file of the directory `reports`.

    The file's name begins with `kind`. If the directory is gone, write nothing, because nobody reads the report.
    """
    with suppress(OSError), tempfile.NamedTemporaryFile(prefix=kind, dir=reports, delete=False) as file:
        file.write(text)


def read_reports(reports: str, kind: str) -> list[bytes]:
    """Return the texts of all reports of a kind, the oldest first, without repetitions."""
    with suppress(OSError):
        files = sorted(Path(reports).glob(f"{kind}*"), key=lambda file: file.stat().st_mtime_ns)
        return [*dict.fromkeys(text for file in files if (text := file.read_bytes()))]
    return []


@dataclass(frozen=True, slots=True)
class Handoff:
    """The request to record. `directory` is for the files of runs, and `file` is the document that the user named."""

    directory: str
    reports: str
    """The directory in which the processes of the agent write reports.

    The directory exists while the command, such as `trace-recorder run`, waits for the agent.

    A file whose name is a process id contains the path of the document of that process. Each file `run-…` contains the
    path of the document of one run. The file `library` exists if a process has imported an HTTP library that can be
    recorded. Each file `unseen-…` describes a connection to a model that is not recorded.
    """
    file: str | None = None
    task: str | None = None

    def to_environment(self) -> dict[str, str]:
        """Return the environment variable for the agent's processes."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the request from an environment, or return None if the environment does not have the variable.

        Raises ValueError or TypeError if the variable has other content.
        """
        text = environment.get(VARIABLE)
        if not text:
            return None
        return cls(**json.loads(text))

    def document(self) -> Path | None:
        """Return the path of the document of this process, or None if the user named no file.

        The first process that asks gets the user's path. Each other process gets this path with its process id in the
        name.
        """
        if self.file is None:
            return None
        path = Path(self.file)
        if self._is_first():
            return path
        return path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")

    def _is_first(self) -> bool:
        first = Path(self.reports, _FIRST)
        with suppress(OSError):  # another process was first, or the directory is gone
            first.symlink_to(str(os.getpid()))
        with suppress(OSError):
            return str(first.readlink()) == str(os.getpid())
        return False

    def report_document(self, document: Path) -> None:
        """Report the path of the document that this process writes."""
        with suppress(OSError):  # the directory is gone
            self._report_of(os.getpid()).write_text(str(document), encoding="utf-8")

    def report_run(self, document: Path) -> None:
        """Report that a run has begun, by any recorder."""
        write_report(self.reports, _RUN, os.fsencode(document))

    def reported_runs(self) -> list[Path]:
        """Return the paths of the documents of all reported runs, in the order in which the runs began."""
        return [Path(os.fsdecode(path)) for path in read_reports(self.reports, _RUN)]

    def report_unseen(self, connection: object) -> None:
        """Report that a client that is not recorded has connected to a model."""
        write_report(self.reports, _UNSEEN, str(connection).encode())

    def unseen(self) -> list[str]:
        """Return the reported connections of clients that are not recorded, the oldest first, without repetitions."""
        return [connection.decode() for connection in read_reports(self.reports, _UNSEEN)]

    def report_library(self) -> None:
        """Report that a process has imported an HTTP library."""
        with suppress(OSError):
            Path(self.reports, _LIBRARY).touch()

    def has_library(self) -> bool:
        """Return whether a process has reported that it imported an HTTP library."""
        return Path(self.reports, _LIBRARY).exists()

    def document_of(self, pid: int) -> Path | None:
        """Return the path of the document that a process has reported, or None."""
        try:
            return Path(self._report_of(pid).read_text(encoding="utf-8"))
        except ours(FileNotFoundError):
            return None

    def _report_of(self, pid: int) -> Path:
        return Path(self.reports, str(pid))
