"""Writes runs in another format, one after another, so that only one is in memory.

A run that cannot be read or converted is reported and skipped. Rows go to one file, by way of a temporary one that is
renamed when all are written. Documents are written one by one, to where `Target` says. Existing files are replaced only
on request. What was left out is counted.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

from trace_recorder.cli.export_names import unique_names
from trace_recorder.cli.formats import FORMATS, ReportingView, Source, outputs_of
from trace_recorder.cli.json_writer import json_parts
from trace_recorder.cli.read_files import UnreadableError, error_message, read
from trace_recorder.cli.text_layout import escape_json_text, pluralize
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.guard import try_call
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.stats import accuracy_of


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
    left_out: Counter[str] = field(default_factory=Counter)

    def count(self, trajectory: Trajectory) -> None:
        """Count a run that was exported."""
        self.runs += 1
        self.running += trajectory.status == "running"
        self.succeeded += trajectory.success is True
        self.not_succeeded += trajectory.success is False

    def metadata(self, given: dict[str, Payload]) -> dict[str, Payload]:
        """Return what is known of the runs as a dataset; given values override it."""
        return {"runs": self.runs, **accuracy_of(self.succeeded, self.not_succeeded), **given}

    def lines(self, name: str, where: str) -> Iterator[str]:
        """Yield the summary as sentences."""
        amount = pluralize(self.rows, "row") if FORMATS[name].kind == "rows" else pluralize(self.files, "file")
        yield f"{pluralize(self.runs, 'run')} as {name}: {amount}, in {where}"
        if self.running:
            yield f"{pluralize(self.running, 'run')} still going on: exported as far as they are"
        yield from (f"left out: {number} x {what}" for what, number in sorted(self.left_out.items()))


@dataclass(frozen=True, slots=True)
class Target:
    """Where an export goes: a file, a directory, or stdout, which is neither."""

    file: Path | None = None
    directory: Path | None = None

    @classmethod
    def of(cls, name: str, out: str | None, runs: int) -> Target:
        """Interpret `-o` for a format and a number of runs, before anything is written. Raises ValueError for misuse.

        A directory is one that is there, ends in a slash, or has a name that does not end in .json, .jsonl or .eval.
        """
        if out is None:
            if FORMATS[name].kind == "rows":
                return cls()
            raise ValueError(f"{name} writes a file a run: say with -o in which directory")
        path = Path(out)
        ends = out.endswith(("/", os.sep))
        if FORMATS[name].kind == "rows":
            if ends or path.is_dir():
                raise ValueError(f"{name} writes one file, and {out} is a directory: name a file in it")
            return cls(file=path)
        if path.is_dir() or ends or not (path.exists() or path.suffix in {".json", ".jsonl", ".eval"}):
            return cls(directory=path)
        if runs > 1:
            raise ValueError(f"{out} is a file, and {name} writes one for each of {runs} runs: name a directory")
        return cls(file=path)


@dataclass(slots=True)
class Export:
    """Writes runs in a format to a target."""

    name: str
    view: ReportingView
    target: Target
    metadata: dict[str, Payload] = field(default_factory=dict)
    force: bool = False
    summary: Summary = field(default_factory=Summary)

    def run(self, runs: Sequence[Path]) -> Summary:
        """Export every run. Raises OSError where the output cannot be written, FileExistsError before anything is."""
        if FORMATS[self.name].kind == "rows":
            self._rows(runs)
        elif self.target.directory is not None:
            self._files(runs, self.target.directory)
        elif self.target.file is not None:
            self._file(runs, self.target.file)
        return self.summary

    def _outputs(self, path: Path, source: Source) -> list[tuple[str, Payload]]:
        """What one run becomes; nothing where it cannot be read, or has nothing in it."""
        try:
            trajectory = read(path)
            pieces, left_out = try_call(
                lambda: self._make_outputs(trajectory, source),
                lambda error: _raise_unreadable(path, error),
            )
        except UnreadableError as error:
            empty = isinstance(error.__cause__, EmptyTrajectoryError)
            (self.summary.empty if empty else self.summary.failed).append(str(error))
            return []
        if not pieces:
            self.summary.empty.append(f"{path}: there is nothing in it that this format can hold")
        self.summary.count(trajectory)
        self.summary.left_out.update(left_out)
        return pieces

    def _make_outputs(self, trajectory: Trajectory, source: Source) -> tuple[list[tuple[str, Payload]], Counter[str]]:
        pieces, left_out = outputs_of(self.name, self.view, trajectory, source)
        return [*pieces], left_out

    def _rows(self, runs: Sequence[Path]) -> None:
        out = self.target.file
        if out is not None:
            self._check_overwrite(out)
            out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile("w+", encoding="utf-8", dir=out.parent if out else None) as rows:
            for path in runs:
                for _, row in self._outputs(path, Source(path.stem, self.summary.runs)):
                    rows.write(_line(row))
                    self.summary.rows += 1
            rows.seek(0)
            self._collect(rows, out)

    def _collect(self, rows: IO[str], out: Path | None) -> None:
        """Return the rows their place, behind the metadata where the format begins with it."""
        metadata = self.summary.metadata(self.metadata)
        begins = FORMATS[self.name].begins_with_metadata
        first = _line({"metadata": metadata}) if begins else ""
        if out is None:
            sys.stdout.write(escape_json_text(first))
            sys.stdout.writelines(map(escape_json_text, rows))
            return
        temporary = out.with_name(f".{out.name}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            temporary.chmod(0o600)
            file.write(first)
            shutil.copyfileobj(rows, file)
        temporary.replace(out)
        self.summary.files = 1
        if self.metadata and not begins:
            self._write(out.with_name(f"{out.name}.metadata.json"), _document(metadata))

    def _files(self, runs: Sequence[Path], directory: Path) -> None:
        """Write what each run becomes into a directory, under its name."""
        directory.mkdir(parents=True, exist_ok=True)
        names = unique_names(runs, ["metadata"] if self.metadata else [])
        for path, name in zip(runs, names, strict=True):
            try:
                self._check_overwrite(directory / f"{name}{FORMATS[self.name].suffix}")
                for file, content in self._outputs(path, Source(name, self.summary.runs, directory)):
                    self._write_run(path, directory / file, content)
            except (FileExistsError, UnreadableError) as error:
                self.summary.failed.append(str(error))
        if self.metadata:
            self._write(directory / "metadata.json", _document(self.summary.metadata(self.metadata)))

    def _file(self, runs: Sequence[Path], out: Path) -> None:
        """Write a run into one file, where it becomes no more than that."""
        self._check_overwrite(out)
        for path in runs:
            with tempfile.TemporaryDirectory() as aside:
                pieces = self._outputs(path, Source(out.stem, 0, Path(aside)))
                more = len(pieces) - 1 + len([*Path(aside).rglob("*.*")])
            if pieces and more:
                amount = pluralize(1 + more, "file")
                raise ValueError(f"{path}: it becomes {amount}, and {out} is one: name a directory with -o")
            for _, content in pieces:
                out.parent.mkdir(parents=True, exist_ok=True)
                self._write_run(path, out, content)
        if self.metadata:
            self._write(out.with_name(f"{out.name}.metadata.json"), _document(self.summary.metadata(self.metadata)))

    def _write_run(self, run: Path, target: Path, content: Payload) -> None:
        """Write what a run becomes, parts of which are made only now. Raises UnreadableError where that fails."""

        def on_error(error: Exception) -> None:
            if isinstance(error, OSError):
                raise error
            _raise_unreadable(run, error)

        try_call(lambda: self._write(target, self._text(content)), on_error)

    def _text(self, content: Payload) -> Iterable[str | bytes]:
        if isinstance(content, bytes):
            return [content]
        return map(_line, content) if FORMATS[self.name].kind == "sessions" else _document(content)

    def _write(self, target: Path, text: Iterable[str | bytes]) -> None:
        self._check_overwrite(target)
        os.close(replace_file(target, map(_bytes, text)))
        self.summary.files += 1

    def _check_overwrite(self, target: Path) -> None:
        if target.exists() and not self.force:
            raise FileExistsError(f"{target} exists: give another -o, or --force to replace it")


def _raise_unreadable(path: Path, error: Exception) -> NoReturn:
    raise UnreadableError(
        f"{path}: {error}" if isinstance(error, EmptyTrajectoryError) else error_message(path, error, "exported")
    ) from error


def _line(row: Payload) -> str:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode() + "\n"


def _bytes(part: str | bytes) -> bytes:
    return part if isinstance(part, bytes) else part.encode("utf-8", "backslashreplace")


def _document(content: Payload) -> Iterator[str]:
    yield from json_parts(content)
    yield "\n"
