"""Recognises addresses of fsspec, such as `s3://bucket/runs`, among paths.

The package passes an address around as a `Path`, which has one slash where the address has two.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, NamedTuple

from trace_recorder.storage.paths import ADDRESS

Part = Literal["start", "document ends", "ends", "document", "run", "files"]
"""The part of a run's files that a reader needs.

| part | is |
|---|---|
| `start` | the beginning of the named file, which states when the run began |
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

listed_times: dict[str, float] = {}
"""The times of the last changes of these files, in seconds since 1970, as far as a listing of the store states them."""


def listed_size(path: Path) -> int:
    """Return the size of a file at an address, or 0 if it was not listed."""
    listed = listed_files.get(path.as_posix())
    if listed is None:
        return 0
    return listed.size


def remote_address(path: str | Path) -> str | None:
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


def path_in(task: object) -> Path | None:
    """Return the address in a task as a path, or None. A task is a path, or a tuple that begins with one."""
    if isinstance(task, tuple) and task:
        task = task[0]
    if isinstance(task, Path) and remote_address(task) is not None:
        return task
    return None
