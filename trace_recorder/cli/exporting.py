"""Writing runs in another format: one after another, so that however many there are, one is in memory.

A run that cannot be read, or of which the view cannot be made, is told and passed over. Rows go to one file by way of a
temporary one, which takes its name when all is written; documents are written each at once. Nothing that exists is
replaced unless that is asked for. What was left out is counted.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trace_recorder.cli.formats import FORMATS, Source, pieces_of
from trace_recorder.cli.reading import UnreadableError, read, reason
from trace_recorder.cli.terminal import as_json_allows, counted
from trace_recorder.conversation import Payload, known
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.guard import attempt
from trace_recorder.replacing import replace_file
from trace_recorder.trajectory import Trajectory


@dataclass(slots=True)
class Summary:
    """What an export did. `failed` and `empty` are sentences, one a file."""

    runs: int = 0
    rows: int = 0
    files: int = 0
    running: int = 0
    succeeded: int = 0
    not_succeeded: int = 0
    failed: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)

    def count(self, trajectory: Trajectory) -> None:
        """Count a run that was exported."""
        self.runs += 1
        self.running += trajectory.status == "running"
        self.succeeded += trajectory.success is True
        self.not_succeeded += trajectory.success is False

    def metadata(self, given: dict[str, Payload]) -> dict[str, Payload]:
        """What is known of the runs as a dataset; what was given counts for more."""
        known_ends = self.succeeded + self.not_succeeded
        accuracy = round(self.succeeded / known_ends, 4) if known_ends else None
        return known(runs=self.runs, accuracy=accuracy) | given

    def lines(self, name: str, where: str) -> Iterator[str]:
        """Tell what was done."""
        amount = counted(self.rows, "row") if FORMATS[name].kind == "rows" else counted(self.files, "file")
        yield f"{counted(self.runs, 'run')} as {name}: {amount}, in {where}"
        if self.running:
            yield f"{counted(self.running, 'run')} still going on: exported as far as they are"
        for what, number in sorted(self.dropped.items()):
            if number:
                yield f"left out: {number} x {what}"


@dataclass(slots=True)
class Export:
    """Writes runs in a format to `out`: a directory, a file, or None, which is stdout."""

    name: str
    view: Callable[..., Payload]
    out: Path | None
    metadata: dict[str, Payload] = field(default_factory=dict)
    force: bool = False
    summary: Summary = field(default_factory=Summary)
    _names: Counter[str] = field(default_factory=Counter)

    def run(self, paths: Iterable[Path]) -> Summary:
        """Export every run. Raises OSError where the output cannot be written, FileExistsError before anything is."""
        if FORMATS[self.name].kind == "rows":
            self._rows(paths)
        else:
            self._files(paths)
        return self.summary

    def _pieces(self, paths: Iterable[Path]) -> Iterator[tuple[str, Payload]]:
        for path in paths:
            yield from self._of(path)

    def _of(self, path: Path) -> list[tuple[str, Payload]]:
        """What one run becomes; nothing where it cannot be read, or has nothing in it."""
        source = Source(self._called(path), self.summary.runs, self._directory())
        dropped: Counter[str] = Counter()
        try:
            trajectory = read(path)
            pieces = attempt(
                lambda: [*pieces_of(self.name, self.view, trajectory, source, dropped)],
                lambda error: _refuse(path, error),
            )
        except UnreadableError as error:
            empty = isinstance(error.__cause__, EmptyTrajectoryError)
            (self.summary.empty if empty else self.summary.failed).append(str(error))
            return []
        if not pieces:
            self.summary.empty.append(f"{path}: there is nothing in it that this format can hold")
        self.summary.count(trajectory)
        self.summary.dropped += dropped
        return pieces

    def _called(self, path: Path) -> str:
        """The name of a run's file; runs of one name, from several directories, get numbers."""
        name = path.stem.removesuffix(".journal")
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}.{self._names[name] - 1}"

    def _directory(self) -> Path:
        return self.out.parent if self._is_one_file() and self.out else self.out or Path()

    def _is_one_file(self) -> bool:
        return self.out is not None and self.out.suffix in {".json", ".jsonl"}

    def _rows(self, paths: Iterable[Path]) -> None:
        if self.out is not None:
            self._may_write(self.out)
            self.out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile("w+", encoding="utf-8", dir=self.out.parent if self.out else None) as rows:
            for _, row in self._pieces(paths):
                rows.write(_line(row))
                self.summary.rows += 1
            rows.seek(0)
            self._collect(rows)

    def _collect(self, rows: IO[str]) -> None:
        """Give the rows their place, behind the metadata where the format begins with it."""
        metadata = self.summary.metadata(self.metadata)
        begins = FORMATS[self.name].begins_with_metadata
        first = _line({"metadata": metadata}) if begins else ""
        if self.out is None:
            sys.stdout.write(as_json_allows(first))
            sys.stdout.writelines(map(as_json_allows, rows))
            return
        temporary = self.out.with_name(f".{self.out.name}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            temporary.chmod(0o600)
            file.write(first)
            shutil.copyfileobj(rows, file)
        temporary.replace(self.out)
        self.summary.files = 1
        if self.metadata and not begins:
            self._write(self.out.with_name(f"{self.out.name}.metadata.json"), _document(metadata))

    def _files(self, paths: Iterable[Path]) -> None:
        directory = self._directory()
        directory.mkdir(parents=True, exist_ok=True)
        for path in paths:
            pieces = self._of(path)
            for number, (name, content) in enumerate(pieces):
                target = self.out if self._is_one_file() and not number and self.out else directory / name
                text = "".join(map(_line, content)) if FORMATS[self.name].kind == "sessions" else _document(content)
                try:
                    self._write(target, text)
                except FileExistsError as error:
                    self.summary.failed.append(str(error))
        if self.metadata:
            self._write(directory / "metadata.json", _document(self.summary.metadata(self.metadata)))

    def _write(self, target: Path, text: str) -> None:
        self._may_write(target)
        os.close(replace_file(target, [text.encode("utf-8", "backslashreplace")]))
        self.summary.files += 1

    def _may_write(self, target: Path) -> None:
        if target.exists() and not self.force:
            raise FileExistsError(f"{target} exists: give another -o, or --force to replace it")


def _refuse(path: Path, error: Exception) -> list[tuple[str, Payload]]:
    raise UnreadableError(
        f"{path}: {error}" if isinstance(error, EmptyTrajectoryError) else reason(path, error, "exported")
    ) from error


def _line(row: Payload) -> str:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def _document(content: Payload) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
