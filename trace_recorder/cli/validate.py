"""The command `validate`: checks files, and prints the findings for people or for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import typer

from trace_recorder.cli.arguments import AsJson, DefaultRuns, paths_or_default
from trace_recorder.cli.engines import DEFAULT_ENGINE, Address, Engine, EngineName
from trace_recorder.cli.output import Progress, console, print_json, print_lines
from trace_recorder.cli.selecting import select_runs
from trace_recorder.cli.text_layout import pluralize
from trace_recorder.formats.any_file import foreign_format
from trace_recorder.guard import try_call
from trace_recorder.reading.validate import Finding, Report, validate
from trace_recorder.storage.local_copies import local_copy


def validate_(
    files: DefaultRuns = None,
    as_json: AsJson = False,
    engine: EngineName = DEFAULT_ENGINE,
    address: Address = None,
) -> None:
    """Check that files are complete and consistent.

    Checks each record, restores each request and stream from the journal, and compares the document with the journal.
    Exits with 1 if there is an error.
    """
    workers, runs = Engine(engine, address), select_runs(paths_or_default(files)).paths
    with Progress(len(runs)) as progress:
        reports = [*progress.over(workers.in_order(validate_file, runs, fetched="files"))]
    if as_json:
        print_json([{**asdict(report), "path": str(report.path), "ok": report.ok} for report in reports])
    else:
        out = console()
        for line, style in _lines(reports):
            print_lines(out, [line], style)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


def validate_file(file: Path) -> Report:
    """Validate a file. The report has a finding if the file cannot be read or checked, or if another tool wrote it."""

    def failed(error: Exception) -> Report:
        why = f"it cannot be checked: {type(error).__name__}: {error}"
        if isinstance(error, OSError):
            why = error.strerror or str(error)
        return Report(file, (Finding("error", "file", why),))

    return try_call(partial(_report_on, file), failed)


def _report_on(file: Path) -> Report:
    """Validate a file, or a local copy of it if the file is at an address."""
    with local_copy(file) as local:
        return replace(_naming_other_format(validate(local)), path=file)


def _naming_other_format(report: Report) -> Report:
    """Return the report, or, for a file of another tool, a report whose only finding names the format of the file."""
    if report.ok or report.records:
        return report
    format_name = foreign_format(report.path)
    if format_name is None:
        return report
    why = f"it is not a run of this package: it looks like {format_name}, which `trace-recorder import` reads"
    return Report(report.path, (Finding("error", "file", why),))


def _lines(reports: Sequence[Report]) -> Iterator[tuple[str, str]]:
    """Yield the findings of each file as lines with their styles."""
    for report in reports:
        errors = sum(finding.severity == "error" for finding in report.findings)
        verdict = "ok"
        if errors:
            verdict = pluralize(errors, "error")
        if report.records:
            verdict += f" ({pluralize(report.records, 'record')}, {pluralize(report.interactions, 'LLM interaction')})"
        yield f"{report.path}: {verdict}", "bold"
        for finding in report.findings:
            style = "red" if finding.severity == "error" else ""
            yield f"  {finding.severity:<5}  {finding.where}: {finding.what}", style
    if len(reports) > 1:
        failed = sum(not report.ok for report in reports)
        yield f"{pluralize(len(reports), 'file')}, {failed or 'none'} with errors", "bold"
