"""Lists and reads runs at addresses of fsspec, such as `s3://bucket/runs` and `hf://…`, and writes exports there.

The package passes an address around as a `Path`, which has one slash where the address has two. `url_of` returns the
address of such a path. A run is copied into a temporary directory, and read there. No process writes to a copied
journal, so a run without an end is read as interrupted.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from trace_recorder.errors import MissingExtraError, TraceRecorderError
from trace_recorder.formats.any_file import load
from trace_recorder.storage.paths import ADDRESS, document_path_for, journal_path_for
from trace_recorder.storage.run_files import run_names
from trace_recorder.values.trajectory import Trajectory

_PARTS = "part-*.parquet"
"""The names of the Parquet files of a table."""


def url_of(path: str | Path) -> str | None:
    """Return the fsspec address that a path was made from, or None for a path of the file system."""
    match = ADDRESS.fullmatch(path.as_posix() if isinstance(path, Path) else path)
    if match is None or os.path.lexists(path):
        return None
    if match[1] in {"file", "local"}:
        return f"{match[1]}:///{match[2]}"
    return f"{match[1]}://{match[2]}"


def remote_runs(url: str) -> list[Path]:
    """Return the paths of the runs at an address and below it, in the order of `run_files`.

    If the address is a file, return only the path of that file.
    """
    files, root = _file_system(url)
    if files.isfile(root):
        return [Path(url)]
    below: dict[tuple[str, ...], list[str]] = {}
    for name in files.find(root):
        inner = PurePosixPath(name).relative_to(PurePosixPath(root))
        if not any(part.startswith(".") for part in inner.parts):
            below.setdefault(inner.parts[:-1], []).append(inner.name)
    return [Path(url, *parts, name) for parts in sorted(below) for name in run_names(sorted(below[parts]))]


@contextmanager
def local_files(url: str) -> Iterator[Path]:
    """Yield the path of a local copy of a run's file.

    If the run has a second file, a copy of it is in the same directory. Raises FileNotFoundError if there is no file at
    the address.
    """
    files, place = _file_system(url)
    name, parent = PurePosixPath(place).name, PurePosixPath(place).parent
    others = {journal_path_for(Path(name)).name, document_path_for(Path(name)).name} - {name}
    with tempfile.TemporaryDirectory() as temporary:
        files.get_file(place, str(Path(temporary, name)))
        for other in others:
            with suppress(FileNotFoundError):
                files.get_file(str(parent / other), str(Path(temporary, other)))
        yield Path(temporary, name)


def load_remote(path: Path, url: str) -> Trajectory:
    """Load the run at an address. Raises the same exceptions as `load`."""
    with local_files(url) as local:
        try:
            return replace(load(local), path=path)
        except TraceRecorderError as error:
            raise type(error)(str(error).replace(str(local), str(path))) from None


@contextmanager
def remote_output(url: str, *, force: bool) -> Iterator[Path]:
    """Yield a local path at which the caller creates a file or a directory.

    When the block ends, each file is copied to the address, and is there only when it is complete. Raises
    FileExistsError if the address exists and `force` is False.
    """
    files, root = _file_system(url)
    if files.exists(root) and not force:
        raise FileExistsError(f"{url} exists: give another -o, or --force to replace it")
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary, PurePosixPath(root).name or "out")
        yield output
        for path in sorted(filter(Path.is_file, (output, *output.rglob("*")))):
            target = PurePosixPath(root, *path.relative_to(output).parts)
            files.makedirs(str(target.parent), exist_ok=True)
            files.put_file(str(path), str(target))
        for directory in {path.parent for path in output.rglob(_PARTS)}:
            _remove_other_parts(files, PurePosixPath(root, *directory.relative_to(output).parts), directory)


def _remove_other_parts(files: Any, target: PurePosixPath, directory: Path) -> None:
    """Remove the Parquet files that only an earlier export wrote, because readers would read their rows too."""
    for name in files.ls(str(target), detail=False):
        if PurePosixPath(name).match(_PARTS) and not (directory / PurePosixPath(name).name).exists():
            files.rm_file(name)


def _file_system(url: str) -> tuple[Any, str]:
    try:
        file_system: tuple[Any, str] = import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        scheme = url.partition(":")[0]
        raise MissingExtraError(f"{url} needs fsspec with its package for {scheme}: pip install fsspec") from error
    return file_system
