"""An unnamed temporary file for settled texts that are not in a written document yet."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import IO

from trace_recorder.derive.live_document.buffer import ElementTexts


class Spool:
    """The temporary file of one draft. It is created with the first text and closed after the texts were copied."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None

    def spill(self, arrays: Iterable[ElementTexts]) -> None:
        """Write the settled texts of some arrays to the file; only their places are kept in memory."""
        if self._file is None:
            self._file = import_module("tempfile").TemporaryFile(dir=self._directory)  # noqa: SIM115 - it is open until it was copied
        for array in arrays:
            array.spill(self._file.fileno())

    def close(self) -> None:
        """Close the file, if there is one. The system then deletes it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    __del__ = close
