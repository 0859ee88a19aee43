"""The commands: what they are called, what they take, where their output goes, and how they exit.

0 is success, 1 that something is not as it should be, in one sentence on stderr or in the findings, 2 misuse. What
is printed is made elsewhere: `listing.py`, `head.py` and `show.py`, `checking.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
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
from trace_recorder.cli.terminal import Sheet, in_one_line
from trace_recorder.conversation import Payload
from trace_recorder.recorder import DIRECTORY
from trace_recorder.trajectory import Trajectory

app = typer.Typer(
    name="trace-recorder",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Directory = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", help=f"Default: $TRACE_RECORDER_DIR, or {DIRECTORY}.", show_default=False),
]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The .json or the .jsonl of a run.", show_default=False)]
Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="The .json or .jsonl of runs.", show_default=False)
]
Full = Annotated[bool, typer.Option("--full", help="Shorten nothing.")]
Step = Annotated[int | None, typer.Option("--step", metavar="N", help="Show one step only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
AsDocument = Annotated[bool, typer.Option("--json", help="Print the document, with the full history.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            number = version("trace-recorder")
        except PackageNotFoundError:
            number = "(not installed)"
        typer.echo(f"trace-recorder {number}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
]


@app.callback()
def options(version: Version = False) -> None:  # noqa: ARG001 - its callback does it
    """Look at what an agent did: the runs that trace_recorder recorded."""


@app.command("list")
def list_(directory: Directory = None, as_json: AsJson = False) -> None:
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
    titles, *rows = table(found.trajectories, width)
    _print_lines(console, [titles] if rows else [f"There are no trajectories in {directory}."], "bold")
    _print_lines(console, rows)
    if found.others:
        console.print()
        _print_lines(console, ["Not shown:", *(f"  {other.reason}" for other in found.others)], "yellow")


@app.command("show")
def show(file: File, full: Full = False, step: Step = None, as_json: AsDocument = False) -> None:
    """Show a run, step by step.

    Of each step: what was new to the model, what it said, and what its tools gave.
    """
    try:
        trajectory = read(file)
    except UnreadableError as error:
        _fail(str(error))
    try:
        if as_json:
            _print_json(trajectory.to_document())
        else:
            _print_run(trajectory, file, full=full, step=step)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        _fail(f"{file} is damaged, `trace-recorder validate` says where ({type(error).__name__}: {error})")


def _print_run(trajectory: Trajectory, file: Path, *, full: bool, step: int | None) -> None:
    parts = parts_of(trajectory)
    numbers = dict.fromkeys(str(part.step_number) for part in parts if part.step_number is not None)
    if step is not None and str(step) not in numbers:
        _fail(f"{file} has no step {step}" + (f"; it has {', '.join(numbers)}" if numbers else ""))
    sheet = Sheet(_console(), full=full)
    if step is None:
        sheet.write(head(trajectory, file.name))
    showing = Show(full=full, running=trajectory.status == "running")
    for part in parts:
        entries = list(showing.part(part))
        if step in (None, part.step_number):
            sheet.write(entries)


@app.command("validate")
def validate_(files: Files, as_json: AsJson = False) -> None:
    """Check that files are whole and true.

    Each record, each request and stream put together again, and the document beside the journal. Exits with 1 where
    there is an error.
    """
    from trace_recorder.cli import checking  # noqa: PLC0415 - it imports pydantic, which the others do without

    reports = [checking.report(file) for file in files]
    if as_json:
        _print_json([checking.as_json(report) for report in reports])
    else:
        console = _console()
        for line, style in checking.lines(reports):
            _print_lines(console, [line], style)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _print_lines(console: Console, lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        console.print(Text(in_one_line(line), style), soft_wrap=True)


def _print_json(value: Payload) -> None:
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    typer.echo(json.dumps(value, ensure_ascii=ascii_only, indent=2))


def _fail(message: str) -> NoReturn:
    typer.echo(f"trace-recorder: {in_one_line(message)}", err=True)
    raise typer.Exit(1)
