"""The arguments and options that several commands take."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.read_files import UnreadableError, is_directory
from trace_recorder.storage.paths import DEFAULT_DIRECTORY

DEFAULT = f"Default: $TRACE_RECORDER_DIR, or {DEFAULT_DIRECTORY}."
"""The sentence in the help of a directory that may be left out."""

DefaultRuns = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH...]", help=f"Runs, or directories with runs in or below them. {DEFAULT}", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="NUMBER", min=1, help="Read in so many processes. Default: one a core, or one for little."
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", help="Also take the runs in the directories below.")]
IndexPath = Annotated[
    Path | None,
    typer.Option("--index", metavar="FILE", help="The index of the directory, if it is not in the directory."),
]
Full = Annotated[bool, typer.Option("--full", help="Shorten nothing.")]


def check_names(given: Iterable[str], names: Collection[str], option: str) -> None:
    """Raise BadParameter for the first that is none of the names."""
    for name in given:
        if name not in names:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(names)}", param_hint=option)


def completion_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that gives a shell the names with which an option's value may go on."""
    known = sorted(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def default_directory() -> Path:
    """Return the directory in which runs are looked for if none is named."""
    return Path(os.environ.get("TRACE_RECORDER_DIR") or DEFAULT_DIRECTORY)


def paths_or_default(paths: Sequence[Path] | None) -> list[Path]:
    """Return the paths, or else the default directory. Raises UnreadableError if that is needed and not there."""
    if paths:
        return [*paths]
    directory = default_directory()
    if not is_directory(directory):
        raise UnreadableError(f"{no_runs_message([directory])}: there is no such directory")
    return [directory]


def no_runs_message(paths: Sequence[Path]) -> str:
    """Say that there are no runs."""
    return f"there are no trajectories in {', '.join(map(str, paths))}"
