"""The command `export`: what it takes, and how it exits. How runs are written is in `exporting.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.exporting import Export
from trace_recorder.cli.formats import FORMATS
from trace_recorder.cli.printing import fail, warn
from trace_recorder.cli.reading import UnreadableError, runs_of
from trace_recorder.conversation import Payload

Paths = Annotated[
    list[Path], typer.Argument(metavar="FILE|DIR...", help="Runs, or directories of them.", show_default=False)
]
Name = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help=f"One of: {', '.join(FORMATS)}.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="PATH", help="A directory, or a file where one is written; else stdout."),
]
Form = Annotated[
    str | None,
    typer.Option(
        "--form",
        help="trl: messages, prompt_completion, tokens; hierarchy: turn, message; toolbrain: calls, code, react.",
    ),
]
Dataset = Annotated[str | None, typer.Option("--name", help="What the dataset is called, in its metadata.")]
Metadata = Annotated[
    list[str] | None, typer.Option("--metadata", metavar="KEY=VALUE", help="More metadata; a value may be JSON.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


def export(  # noqa: PLR0913, PLR0917 - one argument an option
    paths: Paths,
    name: Name,
    out: Out = None,
    form: Form = None,
    dataset: Dataset = None,
    metadata: Metadata = None,
    force: Force = False,
) -> None:
    """Write runs in another format.

    What the format cannot carry is counted. A run that cannot be read is told and passed over; the exit code is then 1.
    """
    if name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}", param_hint="--format")
    if out is None and FORMATS[name].kind != "rows":
        raise typer.BadParameter(f"{name} writes a file a run: say with -o in which directory", param_hint="-o")
    about = given(metadata or [], "--metadata") | ({"name": dataset} if dataset else {})
    try:
        view = FORMATS[name].view(form)
        summary = Export(name, view, out, about, force=force).run(runs_of(paths))
    except (ImportError, ValueError) as error:
        fail(str(error))
    except UnreadableError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.strerror else str(error))
    for line in (*summary.failed, *summary.empty, *summary.lines(name, str(out) if out else "stdout")):
        warn(line)
    if summary.failed:
        raise typer.Exit(1)


def given(pairs: list[str], option: str) -> dict[str, Payload]:
    """Read KEY=VALUE pairs; a value that is JSON is that, and any other a text."""
    found: dict[str, Payload] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
