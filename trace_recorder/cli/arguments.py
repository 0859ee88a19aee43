"""The arguments and options that several commands take."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.storage.paths import DEFAULT_DIRECTORY

DefaultRuns = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE|DIR...]", help=f"Default: $TRACE_RECORDER_DIR, or {DEFAULT_DIRECTORY}.", show_default=False
    ),
]
Runs = Annotated[
    list[Path], typer.Argument(metavar="FILE|DIR...", help="Runs, or directories of them.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Read in N processes. Default: one a core, or one for little."),
]
Full = Annotated[bool, typer.Option("--full", help="Shorten nothing.")]


def check_names(given: Iterable[str], names: Collection[str], option: str) -> None:
    """Raise BadParameter for the first that is none of the names."""
    for name in given:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(names)}", param_hint=option)


def default_directory() -> Path:
    """Return the directory in which runs are looked for if none is named."""
    return Path(os.environ.get("TRACE_RECORDER_DIR") or DEFAULT_DIRECTORY)
