"""Reads files for the command line. An unreadable file is reported in a sentence, never by a traceback.

Any exception that a file causes, even an unexpected exception, is reported for that file. Then the command goes on with
the next file. The modules that read journals are imported when the first run is read: `list` does not need them if all
runs have ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import NoReturn, TypeVar

from trace_recorder.errors import TraceRecorderError
from trace_recorder.guard import ignore_failures, try_call
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.run_files import real_journal, runs_in_directory
from trace_recorder.values.trajectory import Trajectory

T = TypeVar("T")


class UnreadableError(Exception):
    """A file cannot be read or processed. The message names the file and the reason."""


def load_run(path: Path) -> Trajectory:
    """Load a trajectory from a file or an address, as `trace_recorder.load` does."""
    from trace_recorder.formats import any_file  # noqa: PLC0415 - importing it takes longer than listing ended runs

    return any_file.load_only(path)


def load_runs(path: Path) -> Iterable[Trajectory]:
    """Load the run of a file, or all runs of another tool's file. Raises the exceptions of `load`."""
    from trace_recorder.formats import any_file  # noqa: PLC0415 - as in `load_run`

    return any_file.load_each(path)


def read_run(path: Path) -> Trajectory:
    """Read a trajectory from either of its files. Raises UnreadableError."""
    return process(path, partial(load_run, path))


def process(path: Path, work: Callable[[], T], verb: str = "read") -> T:
    """Run `work` on a file and return its result.

    Raises UnreadableError for any exception of `work`. The message is like "FILE cannot be read", with `verb` as its
    last word.
    """
    return try_call(work, partial(_raise_unreadable, path, verb))


def process_or_error(path: Path, work: Callable[[], T], verb: str) -> T | UnreadableError:
    """Run `work` on a file and return its result, or the UnreadableError that `process` raises."""
    try:
        return process(path, work, verb)
    except UnreadableError as error:
        return error


def _raise_unreadable(path: Path, verb: str, error: Exception) -> NoReturn:
    if isinstance(error, UnreadableError):
        raise error
    raise UnreadableError(failure_message(path, error, verb)) from error


def failure_message(path: Path, error: Exception, verb: str = "read") -> str:
    """Return why a file cannot be processed. For a damaged file, name the first errors that validation finds."""
    if isinstance(error, OSError) and error.strerror:
        return f"{path}: {error.strerror}"
    if isinstance(error, TraceRecorderError):
        return str(error)
    damage = ""
    if isinstance(error, _DAMAGES):
        with ignore_failures:
            damage = _damage_of(path)
    if damage:
        return f"{path} cannot be {verb}, as it is damaged: {damage}. `trace-recorder validate` lists all damage."
    return f"{path} cannot be {verb}: {type(error).__name__}: {error}"


_DAMAGES = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""The exceptions that reading a file raises if a member of its JSON has an unexpected type."""
_SHOWN_ERRORS = 3
"""The message about a damaged file names at most this many errors."""


def _damage_of(path: Path) -> str:
    """Return the first errors that validation finds in a run's files, each with its place in the files."""
    from trace_recorder.reading.validate import validate  # noqa: PLC0415 - only damaged files need it

    errors = (finding for finding in validate(path).findings if finding.severity == "error")
    return "; ".join(f"{finding.where}: {finding.what}" for finding in islice(errors, _SHOWN_ERRORS))


def find_runs(paths: Iterable[Path], *, recursive: bool = True) -> Iterator[Path]:
    """Yield the runs at these paths, each once.

    A path of a file is yielded as it is. For a directory, all runs in it and in its subdirectories are yielded.

    If `recursive` is False, the subdirectories are left out. Raises UnreadableError.
    """
    return each_once(paths, partial(_runs_at, recursive=recursive), lambda run: run)


def each_once(
    paths: Iterable[Path], runs_at: Callable[[Path], Iterable[T]], path_of: Callable[[T], str | Path]
) -> Iterator[T]:
    """Yield the runs that `runs_at` returns for these paths, each run once. `path_of` returns the path of a run."""
    yielded: set[str] = set()
    real_directory = lru_cache(maxsize=1000)(os.path.realpath)
    for path in paths:
        for run in runs_at(path):
            identity = real_journal(path_of(run), real_directory)
            if identity not in yielded:
                yielded.add(identity)
                yield run


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory, or an address of one.

    Return False for a path that the system refuses, such as a path that is too long. Raises UnreadableError if a store
    has to be asked, and fails.
    """
    url = remote_address(path)
    if url is not None:
        from trace_recorder.storage.remote_files import is_remote_directory  # noqa: PLC0415 - few paths are addresses

        return process(path, partial(is_remote_directory, url), "listed")
    try:
        return path.is_dir()
    except OSError:
        return False


def _runs_at(path: Path, *, recursive: bool) -> Iterator[Path]:
    url = remote_address(path)
    if url is not None:
        return iter(runs_at_address(path, url))
    if not is_directory(path):
        return iter([path])
    try:
        return runs_in_directory(path, recursive=recursive)
    except OSError as error:
        raise UnreadableError(failure_message(path, error)) from error


def runs_at_address(path: Path, url: str) -> list[Path]:
    """Return the runs at an address. Raises UnreadableError."""
    from trace_recorder.storage.remote_files import remote_runs  # noqa: PLC0415 - few paths are addresses

    return process(path, partial(remote_runs, url), "listed")
