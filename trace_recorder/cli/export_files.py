"""Writes many runs in an export format.

Each process has only one run in memory. `export_run.py` converts one run. A run that cannot be read or converted is
reported and skipped. The rows of all runs are collected in a temporary file, and the output is replaced when all rows
are there. Documents are written one by one to the place that `ExportTarget` names. `ExportOutcome` counts the contents
that a format leaves out.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, TypeVar

from trace_recorder.cli.engines import Engine
from trace_recorder.cli.export_run import (
    Conversion,
    ExportOutcome,
    check_overwrite,
    check_target,
    document_text,
    export_file,
    export_files,
    json_line,
    rows_of,
    table_part,
    write_text,
)
from trace_recorder.cli.output import Progress
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.figures.stats import accuracy_of
from trace_recorder.formats.format_writer import EXPORT_FORMATS
from trace_recorder.values.control_characters import escape_json_text
from trace_recorder.values.messages import Payload

_EXTRA_FILE = re.compile(r"(?P<run>.+)\.(?:cont|conversation)-\d+", re.DOTALL)
"""Matches the name of an additional file of a run, without its suffix. The name begins with the run's name."""
_MAX_NAME_BYTES = 200
"""A file name with more bytes than this is cut. File systems allow 255 bytes, and a suffix follows the name."""


def unique_names(runs: Sequence[Path], reserved: Iterable[str] = ()) -> list[str]:
    """Return a name for each run: the name of its file, with a number if that name is taken or reserved."""
    stems = [_stem(run) for run in runs]
    own_names = {*map(_folded, stems)}
    taken = {*map(_folded, reserved)}
    names = []
    for stem in stems:
        candidates = itertools.chain([stem], (f"{stem}.{number}" for number in itertools.count(1)))
        name = next(candidate for candidate in candidates if _is_free(candidate, stem, own_names, taken))
        taken.add(_folded(name))
        names.append(name)
    return names


def _stem(run: Path) -> str:
    stem = run.stem.removesuffix(".journal") or run.stem
    encoded = os.fsencode(stem)
    if len(encoded) <= _MAX_NAME_BYTES:
        return stem
    return encoded[:_MAX_NAME_BYTES].decode("utf-8", "ignore")


def _is_free(name: str, stem: str, own_names: set[str], taken: set[str]) -> bool:
    """Return whether a run may get `name`, which is `stem`, or `stem` with a number.

    The name must differ from the names of other runs and of their additional files.
    """
    key = _folded(name)
    others = own_names | taken
    if key in taken or _is_extra_file_of(key, others):
        return False
    return name == stem or not (key in others or any(_is_extra_file_of(other, {key}) for other in others))


def _is_extra_file_of(key: str, runs: set[str]) -> bool:
    """Return whether `key` is the name of an additional file of one of these runs."""
    match = _EXTRA_FILE.fullmatch(key)
    return match is not None and match["run"] in runs


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """The place that an export is written to: a file, a directory, or stdout if both are None."""

    file: Path | None = None
    directory: Path | None = None

    @classmethod
    def of(cls, name: str, out: str | None, runs: int) -> ExportTarget:
        """Return the target that the value of `-o` means for a format and this many runs. Raises ValueError for misuse.

        For a format that writes a file for each run, a path that does not exist is a directory, unless it ends in
        .json, .jsonl or .eval.
        """
        kind = EXPORT_FORMATS[name].kind
        if kind == "rows":
            if out is None:
                return cls()
            if _is_directory(out):
                raise ValueError(f"{name} writes one file, and {out} is a directory: name a file in it")
            return cls(file=Path(out))
        if kind == "tables":
            if out is None or Path(out).is_file():
                raise ValueError(f"{name} writes files of several tables: name a directory with -o")
            return cls(directory=Path(out))
        if out is None:
            raise ValueError(f"{name} writes a file for each run: name a directory with -o")
        path = Path(out)
        if _is_directory(out) or not (path.exists() or path.suffix in {".json", ".jsonl", ".eval"}):
            return cls(directory=path)
        if runs > 1:
            raise ValueError(f"{out} is a file, and {name} writes one for each of {runs} runs: name a directory")
        return cls(file=path)


def _is_directory(out: str) -> bool:
    return Path(out).is_dir() or out.endswith(("/", os.sep))


@dataclass(slots=True)
class Export:
    """An export of runs in a format to a target.

    The engine converts the runs, in `jobs` processes if it uses this machine. The runs were found at the paths
    `sources`. A part of tables has at most `part_runs` runs, by default `PART_RUNS`.
    """

    conversion: Conversion
    target: ExportTarget
    metadata: dict[str, Payload] = field(default_factory=dict)
    jobs: int = 1
    engine: Engine = field(default_factory=Engine)
    total: ExportOutcome = field(default_factory=ExportOutcome)
    sources: Sequence[Path] = ()
    part_runs: int | None = None

    def run(self, runs: Sequence[Path]) -> None:
        """Export every run.

        Raises OSError if the output cannot be written. Raises FileExistsError before anything is written if a file
        exists and may not be replaced.
        """
        if EXPORT_FORMATS[self.conversion.name].kind == "rows":
            self._rows(runs)
        elif EXPORT_FORMATS[self.conversion.name].kind == "tables" and self.target.directory is not None:
            self._tables(runs, self.target.directory)
        elif self.target.directory is not None:
            self._files(runs, self.target.directory)
        elif self.target.file is not None:
            self._file(runs, self.target.file)

    def summary(self, where: str) -> Iterator[str]:
        """Yield sentences about what was exported."""
        name, counts = self.conversion.name, self.total.counts
        yield from self.total.failed
        yield from self.total.empty
        written = "row" if EXPORT_FORMATS[name].kind == "rows" else "file"
        yield f"{pluralize(counts['runs'], 'run')} as {name}: {pluralize(counts[f'{written}s'], written)}, in {where}"
        if counts["there"]:
            yield f"exported before: {pluralize(counts['there'], 'run')}"
        if counts["gone"]:
            yield f"removed, because their files are gone: {pluralize(counts['gone'], 'run')}"
        if counts["running"]:
            yield f"{pluralize(counts['running'], 'run')} still being recorded: exported up to now"
        yield from (f"left out: {number} x {what}" for what, number in sorted(self.total.left_out.items()))

    def _dataset_metadata(self) -> dict[str, Payload]:
        """Return the metadata of the dataset. Values that the user gave take precedence."""
        counts = self.total.counts
        return {"runs": counts["runs"], **accuracy_of(counts["succeeded"], counts["not_succeeded"]), **self.metadata}

    def _outcomes(
        self, work: Callable[[T], ExportOutcome], tasks: Sequence[T], batch: int | None = None
    ) -> Iterator[ExportOutcome]:
        """Count the outcome of each task, and then yield the outcome, in the order of the tasks."""
        with Progress(len(tasks)) as progress:
            for outcome in progress.over(self.engine.in_order(work, tasks, min(self.jobs, len(tasks)), batch)):
                self.total.add(outcome)
                yield outcome

    def _rows(self, runs: Sequence[Path]) -> None:
        out, format_ = self.target.file, EXPORT_FORMATS[self.conversion.name]
        directory = None
        if out is not None:
            check_overwrite(out, force=self.conversion.force)
            directory = out.parent
            directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile("w+", encoding="utf-8", dir=directory) as rows:
            for outcome in self._outcomes(partial(rows_of, self.conversion), runs):
                for row in outcome.rows:
                    if format_.numbers_runs:
                        row["index"] = self.total.counts["runs"] - 1
                    rows.write(json_line(row))
            rows.seek(0)
            self._collect(rows, out)

    def _collect(self, rows: IO[str], out: Path | None) -> None:
        """Write the collected rows to the output.

        If the format begins with metadata, write the metadata before the rows.
        """
        begins = EXPORT_FORMATS[self.conversion.name].begins_with_metadata
        first = ""
        if begins:
            first = json_line({"metadata": self._dataset_metadata()})
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
        self.total.counts["files"] = 1
        if not begins:
            self._write_metadata(out.with_name(f"{out.name}.metadata.json"))

    def _files(self, runs: Sequence[Path], directory: Path) -> None:
        """Write the files of each run into a directory, under the name of the run."""
        directory.mkdir(parents=True, exist_ok=True)
        reserved = ["metadata"] if self.metadata else []
        tasks = [*zip(runs, unique_names(runs, reserved), strict=True)]
        conversion = self.conversion
        refused: dict[tuple[Path, str], str] = {}
        if self.engine.repeats_tasks and not conversion.resume:
            conversion = replace(
                conversion, resume=True
            )  # a task that runs twice must accept the files of its first run
            for task in tasks:
                try:
                    check_target(conversion, directory, task)
                except OSError as error:
                    refused[task] = str(error)
        free = [task for task in tasks if task not in refused]
        outcomes = self._outcomes(partial(export_files, conversion, directory), free)
        for task in tasks:
            if task in refused:
                self.total.failed.append(refused[task])
            else:
                next(outcomes)  # exports the run, and counts it
        next(outcomes, None)
        self._write_metadata(directory / "metadata.json")

    def _tables(self, runs: Sequence[Path], directory: Path) -> None:
        """Write the rows of the runs into the files of the tables. Runs that have not changed since are left out."""
        conversion, parquet = self.conversion, import_module("trace_recorder.tables.parquet")
        tables = parquet.FORMS[conversion.form or "tables"]
        with parquet.TableFiles(directory, tables, resume=conversion.resume, force=conversion.force) as files:
            missing, self.total.counts["gone"] = files.outdated(runs, self.sources)
            self.total.counts["there"] = len(runs) - len(missing)
            for outcome in self._outcomes(
                partial(table_part, conversion),
                [*parquet.divide_runs(missing, self.part_runs or parquet.PART_RUNS)],
                batch=1,
            ):
                for part in outcome.rows:
                    files.add(part)
        self.total.counts["files"] = files.files
        self._write_metadata(directory / "metadata.json")

    def _file(self, runs: Sequence[Path], out: Path) -> None:
        """Write a run into one file. Fails if the format needs several files for the run."""
        check_overwrite(out, force=self.conversion.force)
        for path in runs:
            self.total.add(export_file(self.conversion, out, path))
        self._write_metadata(out.with_name(f"{out.name}.metadata.json"))

    def _write_metadata(self, target: Path) -> None:
        if self.metadata:
            write_text(target, document_text(self._dataset_metadata()), force=self.conversion.force)
            self.total.counts["files"] += 1
