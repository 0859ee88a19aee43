"""The arguments and options that several commands take."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from trace_recorder.cli.read_files import UnreadableError, is_directory
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.paths import DEFAULT_DIRECTORY, DIRECTORY_VARIABLE
from trace_recorder.values.messages import Payload

DEFAULT = f"Default: ${DIRECTORY_VARIABLE}, or {DEFAULT_DIRECTORY}."
"""The end of the help text of a path argument that may be omitted."""

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
        "--jobs",
        metavar="NUMBER",
        min=1,
        help="How many processes read the runs. Default: one for each core, or one if there is little to read.",
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", help="Also use the runs in subdirectories.")]
IndexPath = Annotated[
    Path | None,
    typer.Option("--index", metavar="FILE", help="The path of the index, if it is not in the directory of the runs."),
]
TablePaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--tables",
        metavar="DIR",
        help="A directory with Parquet tables of the runs that is not below the paths. May be repeated.",
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Do not shorten long texts.")]


def check_index(index: Path | None, paths: Sequence[Path]) -> None:
    """Raise BadParameter if an index to be changed is not that of one directory."""
    if index is not None and (len(paths) != 1 or not is_directory(paths[0])):
        raise typer.BadParameter("an index belongs to one directory; give this directory alone", param_hint="--index")


def check_names(values: Iterable[str], names: Collection[str], option: str) -> None:
    """Raise BadParameter for the first value that is not one of the names."""
    for value in values:
        if value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}", param_hint=option)


def completion_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes an option's value for a shell."""
    known = sorted(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def parse_key_values(pairs: Iterable[str], option: str) -> dict[str, Payload]:
    """Parse KEY=VALUE pairs.

    A value that is not valid JSON is kept as text. Raises BadParameter if a pair has no key or no `=`, or if a key is
    given twice.
    """
    values: dict[str, Payload] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        if key in values:
            raise typer.BadParameter(f"{key} has two values; give it one", param_hint=option)
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values


def default_directory() -> Path:
    """Return the directory in which runs are read and written if the command line names no path."""
    return Path(os.environ.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY)


def paths_or_default(paths: Sequence[Path] | None) -> list[Path]:
    """Return the paths, or the default directory if no path is given.

    Raises UnreadableError if that directory is missing.
    """
    if paths:
        return [*paths]
    directory = default_directory()
    if not is_directory(directory):
        raise UnreadableError(f"{no_runs_message([directory])}: there is no such directory")
    return [directory]


def local_paths(paths: Sequence[Path] | None, command: str) -> list[Path]:
    """Return the paths as `paths_or_default` does, for a command that needs local files.

    Raises UnreadableError if a path is an address.
    """
    targets = paths_or_default(paths)
    for path in targets:
        url = remote_address(path)
        if url is not None:
            raise UnreadableError(
                f"{url} is an address, and `{command}` works on local files only: copy the runs into a directory "
                "first, and copy changed files back afterwards"
            )
    return targets


def no_runs_message(paths: Sequence[Path]) -> str:
    """Return the message that there are no runs at these paths."""
    return f"there are no trajectories in {', '.join(map(str, paths))}"
