"""A terminal that keeps what is drawn on it."""

from __future__ import annotations

import io


class Stderr(io.StringIO):
    """The stream on which a bar is drawn."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal
