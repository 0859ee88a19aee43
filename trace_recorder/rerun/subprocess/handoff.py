"""What the process that replays a program passes to the program's processes: one environment variable.

All of them replay one journal. Which recorded calls have been given is settled among them by files: a call is given
once, whichever process makes it, and none of that is lost with a process that is killed.
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
    """What to replay: which journal, how, and where to note which records were used."""

    journal: str
    reports: str
    """A directory, there while the program is waited for: a file `given-N` for each record that was given, N being its
    number, and a file `mismatch-…` with the text of each mismatch."""
    ignore: tuple[str, ...] = ()
    speed: float | None = None
    tools: Literal["recorded", "live"] = "recorded"

    def to_environment(self) -> dict[str, str]:
        """Return the order as a variable of an environment."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the order in an environment; None without one. Raises ValueError and TypeError for anything else."""
        text = environment.get(VARIABLE)
        return cls(**json.loads(text)) if text else None

    def claim(self, number: int) -> bool:
        """Note that the record of this number is used; False if it was used before, by any process."""
        path = Path(self.reports, f"{_GIVEN}{number}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        except OSError:  # the supervisor has ended: this process outlives the program
            return True
        return True

    def given(self) -> set[int]:
        """Return the numbers of the records that have been used."""
        return {int(file.name.removeprefix(_GIVEN)) for file in Path(self.reports).glob(f"{_GIVEN}*")}

    def report_mismatch(self, text: str) -> None:
        """Report a call that the recording does not answer."""
        with suppress(OSError), tempfile.NamedTemporaryFile(prefix=_MISMATCH, dir=self.reports, delete=False) as file:
            file.write(text.encode("utf-8", "backslashreplace"))

    def mismatches(self) -> list[str]:
        """Return the texts of all mismatches in their order, equal ones once: an SDK retries what fails."""
        files = sorted(Path(self.reports).glob(f"{_MISMATCH}*"), key=lambda file: file.stat().st_mtime_ns)
        return [*dict.fromkeys(file.read_text(encoding="utf-8") for file in files)]
