"""Opens the files of runs wherever they are: whoever reads one does so inside `local_copy`.

For an address, it yields the path of a local copy, and for any other path the path itself. `remote_files.py` does the
work, and is imported only if a path is an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TypeVar

from trace_recorder.storage.addresses import Part, path_in, remote_address

T = TypeVar("T")


@contextmanager
def local_copy(path: Path, part: Part = "files") -> Iterator[Path]:
    """Yield the path of a local copy of a file at an address, or any other path itself.

    The copy is in a directory that has only the files of `part`, and is removed at the end of the block. Raises
    FileNotFoundError if there is no file at the address, and OSError. Errors of the block name the address.
    """
    if remote_address(path) is None:
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
    url = remote_address(path)
    if url is None:
        yield path
        return
    from trace_recorder.storage import remote_files  # noqa: PLC0415 - as above

    with remote_files.copied_directory(url) as directory:
        yield directory


def copied_ahead(tasks: Iterable[T], part: Part = "run") -> Iterator[T]:
    """Yield the tasks. If they have addresses, copies for the next ones are fetched meanwhile."""
    remaining = iter(tasks)
    for task in remaining:
        if path_in(task) is not None:
            from trace_recorder.storage import remote_files  # noqa: PLC0415 - as above

            yield from remote_files.fetched_ahead(chain([task], remaining), part)
            return
        yield task
