"""The common part of every check: pass inputs to a reader, print the refused inputs, and report the counts at the end.

The last lines of a check are its results, each a line of JSON after RESULT, which the session collects. The module
needs no package but the standard library, and this package from its directory.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, Protocol

from trace_recorder import Trajectory, load

RESULT = "RESULT "


class Reader:
    """Counts what a reader accepted and refused. The versions of `packages` identify the reader."""

    def __init__(self, name: str, what: str, *packages: str) -> None:
        self.name = name
        self.what = what
        self.versions = ", ".join(f"{package} {version(package)}" for package in packages)
        self.accepted = self.refused = 0
        self.passed_over: dict[str, int] = {}

    def take(self, what: str, read: Callable[[], object]) -> bool:
        """Pass an input to the reader, whose exception is a finding."""
        try:
            read()
        except Exception:  # noqa: BLE001 - any exception of a reader is a finding
            self.refused += 1
            print(f"REFUSED by {self.name}: {what}: {traceback.format_exc(limit=-2)[-1500:]}", flush=True)
            return False
        self.accepted += 1
        return True

    def pass_over(self, why: str) -> None:
        """Count an input that the reader is not meant for."""
        self.passed_over[why] = self.passed_over.get(why, 0) + 1

    def result(self) -> dict[str, Any]:
        """Return the counts in the form that the session reads."""
        besides = "".join(f"; {count} skipped: {why}" for why, count in self.passed_over.items())
        counts = {"accepted": self.accepted, "refused": self.refused}
        return {"reader": self.name, "version": self.versions, "what": self.what + besides, **counts}


class Judge(Protocol):
    """An object that has given inputs to a reader, and counted the results."""

    @property
    def accepted(self) -> int: ...

    @property
    def refused(self) -> int: ...

    def result(self) -> dict[str, Any]: ...


def finish(*readers: Judge) -> NoReturn:
    """Print the results, and exit: with 1 if an input was refused, or a reader got no input."""
    for reader in readers:
        print(RESULT + json.dumps(reader.result()), flush=True)
    sys.exit(any(reader.refused or not reader.accepted for reader in readers))


def directory() -> Path:
    """Return the directory with `runs` and the exports, which the command names."""
    return Path(sys.argv[1])


def files(name: str) -> list[Path]:
    """Return the files of an export that has one file or more for each run."""
    return sorted(path for path in (directory() / name).iterdir() if path.is_file())


def documents(name: str) -> Iterator[tuple[str, Any]]:
    """Yield each document of an export, with the name of its run."""
    for path in files(name):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def rows(name: str) -> list[Any]:
    """Return the rows of an export that is one file."""
    return [json.loads(line) for line in (directory() / name).read_text(encoding="utf-8").splitlines()]


def runs() -> Iterator[tuple[str, Trajectory]]:
    """Yield each run by its name."""
    found = {path.with_suffix(""): path for ending in ("jsonl", "json") for path in run_files(ending)}
    for name, path in sorted(found.items()):
        yield name.name, load(path)


def run_files(ending: str) -> list[Path]:
    """Return the journals, or the documents, of all runs."""
    return sorted((directory() / "runs").rglob(f"*.{ending}"))
