"""The order to record. The agent's processes get it from the process that runs the agent, in an environment variable.

A process without the variable does nothing. The order reaches every descendant. The first process that asks gets the
file that the user named.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from trace_recorder.signal_handlers import ours, suppress

VARIABLE = "TRACE_RECORDER_RUN"
"""The environment variable with the order, as JSON."""
_FIRST = "first"
_LIBRARY = "library"
_RUN = "run-"
_UNSEEN = "unseen-"


def write_report(reports: str, kind: str, text: bytes) -> None:
    """Write a report of a kind into a new file of the directory.

    If the directory is gone, nobody waits for the report, and nothing is written.
    """
    with suppress(OSError), tempfile.NamedTemporaryFile(prefix=kind, dir=reports, delete=False) as file:
        file.write(text)


def read_reports(reports: str, kind: str) -> list[bytes]:
    """Return the texts of all reports of a kind in order, without repetitions."""
    with suppress(OSError):
        files = sorted(Path(reports).glob(f"{kind}*"), key=lambda file: file.stat().st_mtime_ns)
        return [*dict.fromkeys(text for file in files if (text := file.read_bytes()))]
    return []


@dataclass(frozen=True, slots=True)
class Handoff:
    """The order to record: the directory, the task, and where to report the name of the file."""

    directory: str
    reports: str
    """A directory in which the processes of the agent report, while somebody waits for the agent.

    A file whose name is a process id contains the path of the document of that process. Each file `run-…` contains the
    path of the document of one run. The file `library` exists if a process has imported an HTTP library that can be
    recorded. Each file `unseen-…` describes a connection to a model that is not recorded.
    """
    file: str | None = None
    task: str | None = None

    def to_environment(self) -> dict[str, str]:
        """Return the order as a variable of an environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the order in an environment, or return None if the environment has no order.

        Raises ValueError and TypeError for any other content.
        """
        text = environment.get(VARIABLE)
        return cls(**json.loads(text)) if text else None

    def document(self) -> Path | None:
        """Return the path for this process, or None if the user named no file.

        The first process that asks gets the user's path. All others get the path with their process id.
        """
        if self.file is None:
            return None
        path = Path(self.file)
        return path if self._is_first() else path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")

    def _is_first(self) -> bool:
        first = Path(self.reports, _FIRST)
        with suppress(OSError):  # another process was first, or nobody waits for the agent any more
            first.symlink_to(str(os.getpid()))
        with suppress(OSError):
            return str(first.readlink()) == str(os.getpid())
        return False

    def report_document(self, document: Path) -> None:
        """Report which file this process writes."""
        with suppress(OSError):  # nobody waits for the agent any more
            self._report_of(os.getpid()).write_text(str(document), encoding="utf-8")

    def report_run(self, document: Path) -> None:
        """Report that a run has begun, by any recorder."""
        write_report(self.reports, _RUN, os.fsencode(document))

    def reported_runs(self) -> list[Path]:
        """Return the documents of all runs in the order in which they began."""
        return [Path(os.fsdecode(path)) for path in read_reports(self.reports, _RUN)]

    def report_unseen(self, connection: object) -> None:
        """Report a connection to a model by a client that is not recorded."""
        write_report(self.reports, _UNSEEN, str(connection).encode())

    def unseen(self) -> list[str]:
        """Return the reported connections in order, without repetitions."""
        return [connection.decode() for connection in read_reports(self.reports, _UNSEEN)]

    def report_library(self) -> None:
        """Report that a process has imported an HTTP library."""
        with suppress(OSError):
            Path(self.reports, _LIBRARY).touch()

    def has_library(self) -> bool:
        """Whether any process has imported an HTTP library."""
        return Path(self.reports, _LIBRARY).exists()

    def document_of(self, pid: int) -> Path | None:
        """Return the file that a process has written, or None if it has not reported one."""
        try:
            return Path(self._report_of(pid).read_text(encoding="utf-8"))
        except ours(FileNotFoundError):
            return None

    def _report_of(self, pid: int) -> Path:
        return Path(self.reports, str(pid))
