"""The commands: what they are called, what they take, where their output goes, and how they exit.

0 is success, 1 that something is not as it should be, in one sentence on stderr or in the findings, 2 misuse. What
is printed is made elsewhere: `list_runs.py`, `run_header.py` and `show.py`, `validation_report.py`. Commands over many
runs, which write files, have files of their own: `export.py`, `stats.py`, `score.py`; so have `run.py`
and `replay.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli import show_turns
from trace_recorder.cli.export import export
from trace_recorder.cli.list_runs import Listing, listing, newest, no_runs_message, table
from trace_recorder.cli.output import console, fail, print_json, print_lines, warn
from trace_recorder.cli.read_files import UnreadableError, find_runs, is_directory, read
from trace_recorder.cli.replay import replay
from trace_recorder.cli.run import SETTINGS, run
from trace_recorder.cli.run_header import head
from trace_recorder.cli.score import score
from trace_recorder.cli.show import Show
from trace_recorder.cli.stats import stats
from trace_recorder.cli.text_layout import EntryWriter
from trace_recorder.guard import try_call
from trace_recorder.storage.paths import DEFAULT_DIRECTORY
from trace_recorder.values.trajectory import Trajectory
from trace_recorder.views.conversations.steps_and_calls import steps_and_calls
from trace_recorder.views.shared_document import shared_document
from trace_recorder.views.toolbrain.parsing import PARSERS

app = typer.Typer(
    name="trace-recorder",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE|DIR...]", help=f"Default: $TRACE_RECORDER_DIR, or {DEFAULT_DIRECTORY}.", show_default=False
    ),
]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE|DIR", help="The .json or the .jsonl of a run; of a directory, the newest.", show_default=False
    ),
]
Files = Annotated[
    list[Path], typer.Argument(metavar="FILE|DIR...", help="Runs, or directories of them.", show_default=False)
]
Full = Annotated[bool, typer.Option("--full", help="Shorten nothing.")]
Step = Annotated[int | None, typer.Option("--step", metavar="N", help="Show one step only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
AsDocument = Annotated[bool, typer.Option("--json", help="Print the document, with the full history, or the turns.")]
Turns = Annotated[bool, typer.Option("--turns", help="Walk through it as ToolBrain's turns, with warnings.")]
Parser = Annotated[
    str | None, typer.Option("--parser", metavar="NAME", help=f"With --turns, one of {', '.join(PARSERS)}.")
]


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
def list_(runs: Runs = None, as_json: AsJson = False) -> None:
    """List the runs in a directory.

    Several directories and files may be given; a file that cannot be read is then told, and the exit code is 1.
    """
    paths = runs or [Path(os.environ.get("TRACE_RECORDER_DIR") or DEFAULT_DIRECTORY)]
    try:
        found = listing(paths)
    except UnreadableError as error:
        fail(str(error))
    named = {str(path) for path in paths if not is_directory(path)}
    if as_json:
        print_json(asdict(found))
    else:
        _print_list(found, paths, named)
    for other in found.others:
        if other.file in named:
            warn(other.reason)
    if any(other.file in named for other in found.others):
        raise typer.Exit(1)


def _print_list(found: Listing, paths: Sequence[Path], named: set[str]) -> None:
    """Print the rows, and the other files of directories. `list_` reports those that were named itself."""
    out = console()
    width = out.width if out.is_terminal or "COLUMNS" in os.environ else None
    titles, *rows = table(found.trajectories, width)
    others = [f"  {other.reason}" for other in found.others if other.file not in named]
    directories = [path for path in paths if str(path) not in named]
    nothing = [no_runs_message(directories).capitalize() + "."] if directories else []
    print_lines(out, [titles] if rows else nothing, "bold")
    print_lines(out, rows)
    if others:
        out.print()
        print_lines(out, ["Not shown:", *others], "yellow")


@app.command("show")
def show(  # noqa: PLR0913, PLR0917 - one argument an option
    file: File,
    full: Full = False,
    step: Step = None,
    turns: Turns = False,
    parser: Parser = None,
    as_json: AsDocument = False,
) -> None:
    """Show a run, step by step.

    Of each step: what was new to the model, what it said, and what its tools gave. With --turns, of each call how its
    prompt ended, what was made of the answer, and a warning where something is odd: an error, no answer, code without
    output.
    """
    _check_turn_options(parser, step, turns=turns)

    def print_it(file: Path) -> None:
        trajectory = read(file)
        if turns:
            _print_turns(trajectory, parser or show_turns.DEFAULT_PARSER, full=full, as_json=as_json)
        elif as_json:
            print_json(shared_document(trajectory))
        else:
            _print_run(trajectory, file, full=full, step=step)

    try:
        file = newest(file) if is_directory(file) else file
        try_call(partial(print_it, file), partial(_refuse_damaged, file))
    except UnreadableError as error:
        fail(str(error))


def _refuse_damaged(file: Path, error: Exception) -> None:
    """Report an error in a file's contents. An error of the output is passed on."""
    if isinstance(error, OSError | UnreadableError):
        raise error
    why = f"{type(error).__name__}: {error}"
    raise UnreadableError(f"{file} is damaged, `trace-recorder validate` says where ({why})") from error


def _check_turn_options(parser: str | None, step: int | None, *, turns: bool) -> None:
    if turns and step is not None:
        raise typer.BadParameter("turns have no step numbers", param_hint="--step")
    if parser is not None and not turns:
        raise typer.BadParameter("it goes with --turns", param_hint="--parser")
    if parser not in {None, *PARSERS}:
        raise typer.BadParameter(f"{parser!r} is none of {', '.join(PARSERS)}", param_hint="--parser")


def _print_turns(trajectory: Trajectory, parser: str, *, full: bool, as_json: bool) -> None:
    if as_json:
        print_json(show_turns.turns_as_json(trajectory, parser))
        return
    out = console()
    for line, style in show_turns.lines(trajectory, parser, full=full):
        print_lines(out, [line], style)


def _print_run(trajectory: Trajectory, file: Path, *, full: bool, step: int | None) -> None:
    parts = steps_and_calls(trajectory)
    numbers = dict.fromkeys(str(part.step_number) for part in parts if part.step_number is not None)
    if step is not None and str(step) not in numbers:
        raise UnreadableError(f"{file} has no step {step}" + (f"; it has {', '.join(numbers)}" if numbers else ""))
    writer = EntryWriter(console(), full=full)
    if step is None:
        writer.write(head(trajectory, file.name))
    showing = Show(trajectory, full=full)
    for part in parts:
        entries = list(showing.part(part))
        if step in (None, part.step_number):
            writer.write(entries)


@app.command("validate")
def validate_(files: Files, as_json: AsJson = False) -> None:
    """Check that files are whole and true.

    Each record, each request and stream put together again, and the document beside the journal. Exits with 1 where
    there is an error.
    """
    from trace_recorder.cli import validation_report as checking  # noqa: PLC0415 - it imports pydantic, which the others do without

    try:
        reports = [checking.report(file) for file in find_runs(files)]
    except UnreadableError as error:
        fail(str(error))
    if not reports:
        fail(no_runs_message(files))
    if as_json:
        print_json([checking.as_json(report) for report in reports])
    else:
        out = console()
        for line, style in checking.lines(reports):
            print_lines(out, [line], style)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


app.command("export")(export)
app.command("stats")(stats)
app.command("score")(score)
app.command("run", context_settings=SETTINGS)(run)
app.command("replay")(replay)
