"""The commands: what they are called, what they take, and where their output goes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from trace_recorder.cli.head import head
from trace_recorder.cli.listing import listing, table
from trace_recorder.cli.reading import UnreadableError, read, reason
from trace_recorder.cli.show import Show, parts_of
from trace_recorder.cli.terminal import Sheet, visible
from trace_recorder.conversation import Payload
from trace_recorder.document import to_document
from trace_recorder.recorder import DIRECTORY
from trace_recorder.validation import Finding, Report, validate

app = typer.Typer(
    name="trace-recorder",
    help="Look at what an agent did: the runs that trace_recorder recorded.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            number = version("trace-recorder")
        except PackageNotFoundError:
            number = "(not installed)"
        typer.echo(f"trace-recorder {number}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take what belongs to no command."""


@app.command("list")
def list_(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help=f"Default: $TRACE_RECORDER_DIR, or {DIRECTORY}.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs in a directory."""
    directory = directory or Path(os.environ.get("TRACE_RECORDER_DIR") or DIRECTORY)
    try:
        found = listing(directory)
    except OSError as error:
        _fail(reason(directory, error))
    if as_json:
        _print_json(asdict(found))
        return
    console = _console()
    width = console.width if console.is_terminal or "COLUMNS" in os.environ else None
    head, *rows = table(found.trajectories, width)
    if rows:
        console.print(Text(head, "bold"), soft_wrap=True)
    for row in rows or [f"There are no trajectories in {visible(str(directory))}."]:
        console.print(Text(row), soft_wrap=True)
    if found.others:
        console.print()
    for other in found.others:
        console.print(Text(visible(f"{other.file} is none: {other.reason}"), "yellow"), soft_wrap=True)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The .json or the .jsonl of a run.", show_default=False)],
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing.")] = False,
    step: Annotated[int | None, typer.Option("--step", metavar="N", help="Show one step only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document, with the full history.")] = False,
) -> None:
    """Show a run, step by step."""
    try:
        trajectory = read(file)
    except UnreadableError as error:
        _fail(str(error))
    if as_json:
        _print_json(to_document(trajectory))
        return
    sheet = Sheet(_console(), full=full)
    if step is None:
        sheet.write(head(trajectory, file.name))
    showing = Show(full=full, running=trajectory.status == "running")
    steps = []
    for part in parts_of(trajectory):
        entries = list(showing.part(part))
        steps.append(part.step_number)
        if step in (None, part.step_number):
            sheet.write(entries)
    if step is not None and step not in steps:
        _fail(f"{file} has no step {step}; ...")


@app.command("validate")
def validate_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The .json or .jsonl of runs.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Check that the files of runs are whole, and agree with each other."""
    reports = [_report(file) for file in files]
    if as_json:
        _print_json([{**asdict(report), "path": str(report.path), "ok": report.ok} for report in reports])
    else:
        ...
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


def _report(file: Path) -> Report:
    try:
        return validate(file)
    except OSError as error:
        return Report(file, (Finding("error", "file", error.strerror or str(error)),))


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _print_json(value: Payload) -> None:
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    typer.echo(json.dumps(value, ensure_ascii=ascii_only, indent=2))


def _fail(message: str) -> NoReturn:
    typer.echo(f"trace-recorder: {visible(message)}", err=True)
    raise typer.Exit(1)
