"""What the process that replays a program asks of the program's processes: one environment variable.

All of them replay one journal. Which recorded calls have been given is settled among them by files: a call is given
once, whichever process asks for it, and none of that is lost with a process that is killed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

VARIABLE = "TRACE_RECORDER_REPLAY"
"""The environment variable that holds the order, as JSON."""
_GIVEN = "given-"
_MISMATCH = "mismatch-"


@dataclass(frozen=True, slots=True)
class ReplayHandoff:
    """To replay: which journal, how, and where to say what was given."""

    journal: str
    reports: str
    """A directory, there while the program is waited for: a file `given-N` for each record that was given, N being its
    number, and a file `mismatch-…` with the text of each mismatch."""
    ignore: tuple[str, ...] = ()
    speed: float | None = None
    tools: Literal["recorded", "live"] = "recorded"

    def to_environment(self) -> dict[str, str]:
        """The order as it stands in an environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the order in an environment; None without one. Raises ValueError and TypeError for anything else."""
        text = environment.get(VARIABLE)
        return cls(**json.loads(text)) if text else None

    def claim(self, number: int) -> bool:
        """Note that the record of this number is given; False where it has been, by whichever process."""
        path = Path(self.reports, f"{_GIVEN}{number}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        except OSError:  # nobody waits any more: this process outlives the program
            return True
        return True

    def given(self) -> set[int]:
        """The numbers of the records that have been given."""
        return {int(file.name.removeprefix(_GIVEN)) for file in Path(self.reports).glob(f"{_GIVEN}*")}

    def report_mismatch(self, text: str) -> None:
        """Say that something was asked which the recording does not answer."""
        with suppress(OSError), tempfile.NamedTemporaryFile(prefix=_MISMATCH, dir=self.reports, delete=False) as file:
            file.write(text.encode("utf-8", "backslashreplace"))

    def mismatches(self) -> list[str]:
        """The texts of all mismatches in their order, equal ones once: an SDK tries again what fails."""
        files = sorted(Path(self.reports).glob(f"{_MISMATCH}*"), key=lambda file: file.stat().st_mtime_ns)
        return [*dict.fromkeys(file.read_text(encoding="utf-8") for file in files)]
