"""Recognises addresses of fsspec, such as `s3://bucket/runs`, among paths.

The package passes an address around as a `Path`, which has one slash where the address has two. Whoever opens a file of
a run does so inside `local_copy`. `remote_files.py` does the work, and is imported only if a path is an address.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, TypeVar

from trace_recorder.storage.paths import ADDRESS

T = TypeVar("T")
Part = Literal["document ends", "ends", "document", "run", "files"]
"""The part of a run's files that a reader needs.

| part | is |
|---|---|
| `document ends` | the beginning and the end of the document, for a row of a list |
| `ends` | these, and the end of the journal |
| `document` | the named file |
| `run` | the journal, or the named file if there is no journal |
| `files` | the document and the journal |
"""


class RemoteFile(NamedTuple):
    """A file at an address: its size in bytes, and its version."""

    size: int
    version: str


listed_files: dict[str, RemoteFile | None] = {}
"""The files that a store has listed, by their addresses as `Path` writes them. None means that there is no file."""


def listed_size(path: Path) -> int:
    """Return the size of a file at an address, or 0 if it was not listed."""
    listed = listed_files.get(path.as_posix())
    if listed is None:
        return 0
    return listed.size


def address_of(path: str | Path) -> str | None:
    """Return the fsspec address that a path was made from, or None for a path of the file system."""
    text = path
    if isinstance(path, Path):
        text = path.as_posix()
    match = ADDRESS.fullmatch(str(text))
    if match is None or os.path.lexists(path):
        return None
    if match[1] in {"file", "local"}:
        return f"{match[1]}:///{match[2]}"
    return f"{match[1]}://{match[2]}"


@contextmanager
def local_copy(path: Path, part: Part = "files") -> Iterator[Path]:
    """Yield the path of a local copy of a file at an address, or any other path itself.

    The copy is in a directory that has only the files of `part`, and is removed at the end of the block. Raises
    FileNotFoundError if there is no file at the address, and OSError. Errors of the block name the address.
    """
    if address_of(path) is None:
        yield path
        return
    from trace_recorder.storage import remote_files  # noqa: PLC0415 - few paths are addresses

    with remote_files.copied(path, part) as local:
        yield local


@contextmanager
def local_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory with copies of the runs at an address and below it, or any other path itself.

    Raises OSError.
    """
    url = address_of(path)
    if url is None:
        yield path
        return
    from trace_recorder.storage import remote_files  # noqa: PLC0415 - as above

    with TemporaryDirectory(prefix="trace-recorder-copies-") as directory:
        remote_files.copy_runs(url, Path(directory))
        yield Path(directory)


def copied_ahead(tasks: Iterable[T], part: Part = "run") -> Iterator[T]:
    """Yield the tasks. If they have addresses, copies for the next ones are fetched meanwhile."""
    remaining = iter(tasks)
    for task in remaining:
        if path_in(task) is not None:
            from trace_recorder.storage import remote_files  # noqa: PLC0415 - as above

            yield from remote_files.fetched_ahead(chain([task], remaining), part)
            return
        yield task


def path_in(task: object) -> Path | None:
    """Return the address in a task as a path, or None. A task is a path, or a tuple that begins with one."""
    if isinstance(task, tuple) and task:
        task = task[0]
    if isinstance(task, Path) and address_of(task) is not None:
        return task
    return None
