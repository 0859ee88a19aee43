"""The agent's tools: list, read and write files below one directory, and run a Python file there.

Every failure of a tool becomes text for the model, never an exception for the agent. Paths that lead out of the
directory are refused, and the programs that run get no keys. This is not a sandbox: code that a model wrote runs with
the user's rights.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60


class ToolError(Exception):
    """The model asked a tool for something that the tool does not do."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The answer for the model: the tool's text, and whether the tool failed."""

    text: str
    failed: bool = False


def _schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": what} for name, what in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """The description of a tool. Each provider has its own form around these three members."""

    name: str
    description: str
    parameters: dict[str, Any]


DECLARATIONS = (
    ToolDeclaration(
        "list_files", "Names of all files below a directory.", _schema(directory="Relative path, '.' for all")
    ),
    ToolDeclaration("read_file", "The text of a file.", _schema(path="Relative path of the file")),
    ToolDeclaration(
        "write_file",
        "Write a file, replacing what it held.",
        _schema(path="Relative path of the file", content="The whole new text"),
    ),
    ToolDeclaration(
        "run_python",
        "Run a Python file, and get its exit code and everything it printed.",
        _schema(path="Relative path of the file"),
    ),
)


class Toolbox:
    """The four tools, bound to one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._tools: dict[str, Callable[..., str]] = {
            "list_files": self._list_files,
            "read_file": self._read_file,
            "write_file": self._write_file,
            "run_python": self._run_python,
        }

    def run(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Run a tool by its name. Errors are returned, not raised."""
        if name not in self._tools:
            return ToolOutcome(f"ToolError: there is no tool {name!r}; there are {', '.join(self._tools)}", failed=True)
        try:
            return ToolOutcome(self._tools[name](**arguments))
        except (ToolError, OSError, ValueError, TypeError) as error:
            return ToolOutcome(f"{type(error).__name__}: {error}", failed=True)

    def _list_files(self, directory: str) -> str:
        top = self._inside(directory)
        return "\n".join(sorted(path.relative_to(self._root).as_posix() for path in top.rglob("*") if path.is_file()))

    def _read_file(self, path: str) -> str:
        return self._inside(path).read_text(encoding="utf-8")

    def _write_file(self, path: str, content: str) -> str:
        count = self._inside(path).write_text(content, encoding="utf-8")
        return f"wrote {count} characters to {path}"

    def _run_python(self, path: str) -> str:
        command = [sys.executable, "-X", "no_debug_ranges", str(self._inside(path))]  # the same in each Python
        try:
            done = subprocess.run(
                command,
                cwd=self._root,
                env=_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            raise ToolError(f"{path} was still running after {TIMEOUT_SECONDS} seconds, and was stopped") from expired
        return f"exit code {done.returncode}\n{done.stdout.replace(f'{self._root}{os.sep}', '')}"

    def _inside(self, path: str) -> Path:
        full = (self._root / path).resolve()
        if not full.is_relative_to(self._root):
            raise ToolError(f"{path} is outside of the project")
        return full


def _environment() -> dict[str, str]:
    """Return the environment without its keys, and without byte code, which would appear in the listing."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN", "_SECRET"))}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
