"""What the process that runs an agent asks of the agent's processes: one environment variable, written and read here.

A process that was started without it does nothing. The same order reaches every child, however deep; which of
them has the file that the user named is settled among them.
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
"""The environment variable that holds the order, as JSON."""
_FIRST = "first"
_LIBRARY = "library"
_RUN = "run-"
_UNSEEN = "unseen-"


def write_report(reports: str, kind: str, text: bytes) -> None:
    """Write a report of a kind into a new file of the directory; nothing if nobody waits any more."""
    with suppress(OSError), tempfile.NamedTemporaryFile(prefix=kind, dir=reports, delete=False) as file:
        file.write(text)


def read_reports(reports: str, kind: str) -> list[bytes]:
    """Return the texts of all reports of a kind in their order, equal ones once."""
    with suppress(OSError):
        files = sorted(Path(reports).glob(f"{kind}*"), key=lambda file: file.stat().st_mtime_ns)
        return [*dict.fromkeys(text for file in files if (text := file.read_bytes()))]
    return []


@dataclass(frozen=True, slots=True)
class Handoff:
    """To record: where to, what the task is, and where to say which file it became."""

    directory: str
    reports: str
    """A directory, there while the agent is waited for, in which its processes say what they do: a file named by a
    process id holds the path of the document that is made for that process, each `run-…` that of any document, and
    `library` is there when one of them has imported an HTTP library that can be recorded, and each `unseen-…` holds a
    connection to a model that is not recorded."""
    file: str | None = None
    task: str | None = None

    def to_environment(self) -> dict[str, str]:
        """Return the order as a variable of an environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the handoff in an environment; None without one. Raises ValueError and TypeError for anything else."""
        text = environment.get(VARIABLE)
        return cls(**json.loads(text)) if text else None

    def document(self) -> Path | None:
        """The path for this process: the user's for the first that asks, with the process id for all others.

        None where the user named no file.
        """
        if self.file is None:
            return None
        path = Path(self.file)
        return path if self._is_first() else path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")

    def _is_first(self) -> bool:
        first = Path(self.reports, _FIRST)
        with suppress(OSError):  # it is there, or nobody waits any more
            first.symlink_to(str(os.getpid()))
        with suppress(OSError):
            return str(first.readlink()) == str(os.getpid())
        return False

    def report_document(self, document: Path) -> None:
        """Say which file this process writes."""
        with suppress(OSError):  # nobody waits any more
            self._of(os.getpid()).write_text(str(document), encoding="utf-8")

    def report_run(self, document: Path) -> None:
        """Say that a run has begun, whoever records it."""
        write_report(self.reports, _RUN, os.fsencode(document))

    def reported_runs(self) -> list[Path]:
        """The documents of all runs that have begun, in that order."""
        return [Path(os.fsdecode(path)) for path in read_reports(self.reports, _RUN)]

    def report_unseen(self, connection: object) -> None:
        """Report a connection to a model by a client that is not recorded."""
        write_report(self.reports, _UNSEEN, str(connection).encode())

    def unseen(self) -> list[str]:
        """Return the connections that were reported, in their order, equal ones once."""
        return [connection.decode() for connection in read_reports(self.reports, _UNSEEN)]

    def report_library(self) -> None:
        """Say that a process has imported an HTTP library."""
        with suppress(OSError):
            Path(self.reports, _LIBRARY).touch()

    def has_library(self) -> bool:
        """Whether any process has."""
        return Path(self.reports, _LIBRARY).exists()

    def document_of(self, pid: int) -> Path | None:
        """Which file a process has written; None where it has said nothing."""
        try:
            return Path(self._of(pid).read_text(encoding="utf-8"))
        except ours(FileNotFoundError):
            return None

    def _of(self, pid: int) -> Path:
        return Path(self.reports, str(pid))
