"""Exports one run: reads it, and makes its rows or writes its files. A separate process may call these functions.

A run that cannot be read or converted is reported in the outcome. Existing files are replaced only if `force` is True.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from trace_recorder.cli.output import json_parts
from trace_recorder.cli.read_files import UnreadableError, failure_message, read_run
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.errors import EmptyTrajectoryError
from trace_recorder.formats.format_writer import EXPORT_FORMATS, OutputPlace, Piece, ReportingView
from trace_recorder.formats.left_out import REPLAYED
from trace_recorder.guard import try_call
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.values.json_text import make_json_writer
from trace_recorder.values.messages import Payload
from trace_recorder.values.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Conversion:
    """An export format in one of its forms, and the options of an export.

    If `force` is True, existing files are replaced. If `resume` is True, a partial export is continued: complete
    tables, and files that already have the right content, are kept. `options` are arguments of the view, by name.
    """

    name: str
    form: str | None = None
    include_incomplete: bool = False
    force: bool = False
    resume: bool = False
    options: tuple[tuple[str, bool], ...] = ()

    def view(self) -> ReportingView:
        """Return the view. Raises ValueError if the format has no such form."""
        options = dict(self.options)
        return EXPORT_FORMATS[self.name].with_options(self.form, include_incomplete=self.include_incomplete, **options)


@dataclass(slots=True)
class ExportOutcome:
    """The result of exporting runs: counts, and the rows if the format has rows.

    `failed` has a message for each run that could not be exported. `empty` has a message for each run without contents
    for this format. `left_out` counts the contents that the format cannot hold, by their kind. `counts` has `runs`,
    `running`, `succeeded`, `not_succeeded`, `files` and `rows`.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    rows: list[Payload] = field(default_factory=list)

    def count(self, trajectory: Trajectory) -> None:
        """Count a run that was exported."""
        self.counts["runs"] += 1
        self.counts["running"] += trajectory.status == "running"
        self.counts["succeeded"] += trajectory.success is True
        self.counts["not_succeeded"] += trajectory.success is False

    def add(self, outcome: ExportOutcome) -> None:
        """Add the outcome of other runs. The rows of these runs are counted, but not kept."""
        self.counts.update(outcome.counts)
        self.counts["rows"] += len(outcome.rows)
        self.failed += outcome.failed
        self.empty += outcome.empty
        self.left_out.update(outcome.left_out)


def rows_of(conversion: Conversion, run: Path) -> ExportOutcome:
    """Convert a run to rows. `rows` of the outcome has the rows."""
    outcome = ExportOutcome()
    outcome.rows = [row for _, row in _outputs(conversion, run, OutputPlace(run.stem), outcome)]
    return outcome


def table_part(conversion: Conversion, runs: Sequence[Path]) -> ExportOutcome:
    """Convert runs to a part of tables. `rows` of the outcome has one element: the contents of the part's files."""
    outcome, parquet = ExportOutcome(), import_module("trace_recorder.tables.parquet")
    part = parquet.PartWriter(parquet.FORMS[conversion.form or "tables"])
    for run in runs:
        state = parquet.files_state(run)
        tables = _outputs(conversion, run, OutputPlace(run.stem), outcome)
        if tables:
            part.add(run, dict(tables), state)
    outcome.rows = [part.finish()]
    return outcome


def export_files(conversion: Conversion, directory: Path, run: tuple[Path, str]) -> ExportOutcome:
    """Write a run (its path, and its name in the export) into one or more files of a directory.

    The name of each file begins with the name of the run. Raises OSError.
    """
    outcome, (path, name) = ExportOutcome(), run
    try:
        if not conversion.resume:
            check_target(conversion, directory, run)
        for file, content in _outputs(conversion, path, OutputPlace(name, directory), outcome):
            _write_run(conversion, path, directory / file, content)
            outcome.counts["files"] += 1
    except (FileExistsError, UnreadableError) as error:
        outcome.failed.append(str(error))
    return outcome


def check_target(conversion: Conversion, directory: Path, run: tuple[Path, str]) -> None:
    """Raise FileExistsError if the first file to write for a run exists and `force` is False."""
    check_overwrite(directory / f"{run[1]}{EXPORT_FORMATS[conversion.name].suffix}", force=conversion.force)


def export_file(conversion: Conversion, out: Path, run: Path) -> ExportOutcome:
    """Write a run into one file.

    Raises ValueError if the format needs several files for the run. Raises UnreadableError if a content cannot be made,
    and OSError if the file cannot be written.
    """
    outcome = ExportOutcome()
    with tempfile.TemporaryDirectory() as directory:
        pieces = _outputs(conversion, run, OutputPlace(out.stem, Path(directory)), outcome)
        extra_files = len(pieces) - 1 + len([*Path(directory).rglob("*.*")])
    if pieces and extra_files:
        amount = pluralize(1 + extra_files, "file")
        raise ValueError(f"{run}: it becomes {amount}, but {out} is a single file: name a directory with -o")
    for _, content in pieces:
        out.parent.mkdir(parents=True, exist_ok=True)
        _write_run(conversion, run, out, content)
        outcome.counts["files"] += 1
    return outcome


def _outputs(conversion: Conversion, run: Path, place: OutputPlace, outcome: ExportOutcome) -> list[Piece]:
    """Return the files or rows of one run. The list is empty if the run cannot be read or has no content.

    The run is counted in `outcome`. If nothing can be exported, `outcome` gets the reason.
    """
    export_format = EXPORT_FORMATS[conversion.name]

    def make() -> tuple[list[Piece], Counter[str]]:
        pieces, left_out = export_format.outputs(conversion.view(), trajectory, place)
        return [*pieces], left_out  # a lazy piece is made here

    try:
        trajectory = read_run(run)
        pieces, left_out = try_call(make, partial(_raise_unreadable, run))
    except UnreadableError as error:
        if isinstance(error.__cause__, EmptyTrajectoryError):
            outcome.empty.append(str(error))
        else:
            outcome.failed.append(str(error))
        return []
    if not pieces and left_out[REPLAYED]:
        outcome.empty.append(f"{run}: it has no rows, because its answers are replayed")
    elif not pieces:
        outcome.empty.append(f"{run}: it contains nothing that this format can hold")
    outcome.count(trajectory)
    outcome.left_out.update(left_out)
    return pieces


def _write_run(conversion: Conversion, run: Path, target: Path, content: Payload) -> None:
    """Write a file of a run.

    A lazy content is made here, so UnreadableError is raised if a part of the content cannot be made.
    """

    def on_error(error: Exception) -> None:
        if isinstance(error, OSError):
            raise error
        _raise_unreadable(run, error)

    def write() -> None:
        text: Iterable[str | bytes]
        if isinstance(content, bytes):
            text = [content]
        elif EXPORT_FORMATS[conversion.name].kind == "sessions":
            text = map(json_line, content)
        else:
            text = document_text(content)
        if conversion.resume and not conversion.force and target.exists():
            text = [b"".join(map(_bytes, text))]
            if target.read_bytes() == text[0]:
                return
        write_text(target, text, force=conversion.force)

    try_call(write, on_error)


def write_text(target: Path, text: Iterable[str | bytes], *, force: bool) -> None:
    """Write a file atomically. Raises FileExistsError if the file exists and `force` is False."""
    check_overwrite(target, force=force)
    replace_file(target, map(_bytes, text))


def _bytes(part: str | bytes) -> bytes:
    if isinstance(part, bytes):
        return part
    return part.encode("utf-8", "backslashreplace")


def check_overwrite(target: Path, *, force: bool) -> None:
    """Raise FileExistsError if a file exists and `force` is False."""
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists: give another -o, or --force to replace it")


def _raise_unreadable(path: Path, error: Exception) -> NoReturn:
    if isinstance(error, EmptyTrajectoryError):
        raise UnreadableError(f"{path}: {error}") from error
    raise UnreadableError(failure_message(path, error, "exported")) from error


def json_line(row: Payload) -> str:
    """Return a value as a line of JSON."""
    return _write_row(row).encode("utf-8", "backslashreplace").decode() + "\n"


_write_row = make_json_writer(", ", ": ")


def document_text(content: Payload) -> Iterator[str]:
    """Yield a value as indented JSON, in parts."""
    yield from json_parts(content)
    yield "\n"
