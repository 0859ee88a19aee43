"""Where a run's two files go: a name that nobody else has, in a directory that exists.

A journal is created exclusively, so two runs never share a name, in one process or in two. A path that the user
gives is used as it is: what stands there from an earlier run moves aside under a number, never wiped; what stands
there of a run that still goes on stays, and the new run takes a number.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from zlib import crc32

from trace_recorder.errors import TrajectoryPathError
from trace_recorder.guard import logger, try_call
from trace_recorder.storage.atomic_rename import rename_exclusive
from trace_recorder.storage.journal import Journal, Record, hold_lock, read, sync_directory

_JOURNAL_SUFFIX = ".journal.jsonl"
"""What follows the name of a document that does not end in `.json`, or would share the journal of one that does not."""
_TEMPORARY_NAME = re.compile(r"\.(?:(?P<pid>\d{1,9})\.(?P<crc>[0-9a-f]{8})|[0-9a-f]{16})\.tmp")
"""Temporary names: of a document that is being written by a process, and of a journal that is being created."""
_STALE_SECONDS = 60.0
"""How old a temporary file is, at least, that may be of a host, or a container, whose processes cannot be asked for."""


def journal_path_for(document: Path) -> Path:
    """Where the journal stands that belongs to a document; to a journal, itself."""
    if document.suffix == ".jsonl":
        return document
    if document.suffix == ".json" and not document.name.endswith(".journal.json"):
        return document.with_suffix(".jsonl")
    return document.with_name(document.name + _JOURNAL_SUFFIX)


def document_path_for(path: Path) -> Path:
    """Where the document stands for a path that the user gave, which may be that of the journal."""
    if path.name.endswith(_JOURNAL_SUFFIX) and path.name != _JOURNAL_SUFFIX:
        return path.with_name(path.name.removesuffix(_JOURNAL_SUFFIX))
    return path.with_suffix(".json") if path.suffix == ".jsonl" else path


def default_name(at: datetime) -> str:
    """The name of a run that begins at `at`, local time."""
    return f"trajectory_{at:%Y%m%d_%H%M%S}.json"


def create_files(
    document: Path, *, own: bool, sync: bool, child: bool = False, parent: str | None = None
) -> tuple[Path, Journal]:
    """Create the journal, and the directory where it is missing; return where the document goes, and the journal.

    With `own`, `document` is a path that the user gave; with `child`, to the process from which this one was forked,
    whose run has that name or may get it: a child's has a number. So has one whose `parent`, the id of a run of
    another process, has the name. Raises TrajectoryPathError where nothing can be created.
    """
    try:
        return _create_files(document, own=own, sync=sync, child=child, parent=parent)
    except TrajectoryPathError:
        raise
    except OSError as error:
        why = f"Cannot create the trajectory's files ({error.strerror}); give another path"
        raise TrajectoryPathError(error.errno, why, str(document)) from error
    except ValueError as error:
        raise TrajectoryPathError(errno.EINVAL, f"This is no path ({error}); give another", str(document)) from error


def _create_files(document: Path, *, own: bool, sync: bool, child: bool, parent: str | None) -> tuple[Path, Journal]:
    if document.is_dir():
        raise TrajectoryPathError(
            errno.EISDIR,
            "This path is a directory; give TrajectoryRecorder the path of a file in it, "
            "or directory= to have the file named by its time",
            str(document),
        )
    for path in (document, journal_path_for(document)):
        if path.exists() and not path.is_file():  # to open a pipe would be to wait for its reader
            raise TrajectoryPathError(errno.EINVAL, "This path is no file; give the path of one", str(path))
    make_directory(document.parent, sync=sync)
    _remove_stale_files(document.parent, f"{crc32(os.fsencode(document.name)):08x}")
    if own and not child and not _is_journal_of_run(parent, journal_path_for(document)):
        moved = _move_aside(document)
        if moved is not None:
            message = "%s was there already, of an earlier run: that is %s now"
            try_call(lambda: logger.warning(message, *moved), lambda _: None)
    for candidate in itertools.islice(_numbered_paths(document), int(own and child), None):
        if not os.path.lexists(candidate):
            with suppress(FileExistsError):
                return candidate, Journal.create(journal_path_for(candidate), sync=sync)
    raise AssertionError("unreachable: numbers do not end")


def make_directory(directory: Path, *, sync: bool) -> None:
    """Make a directory, where it is missing, that is for its owner alone, and excludes itself from version control."""
    if directory.is_dir():
        return
    missing = list(itertools.takewhile(lambda parent: not parent.exists(), (directory, *directory.parents)))
    for made in reversed(missing):
        with suppress(FileExistsError):
            made.mkdir(mode=0o700)
            made.chmod(0o700)  # whatever the umask
    with suppress(OSError), (directory / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
    for made in missing if sync else ():
        sync_directory(made.parent)


def _is_journal_of_run(run: str | None, journal: Path) -> bool:
    """Whether a journal is of the run that has this id."""
    if run is None or not journal.is_file():
        return False
    with journal.open("rb") as file:
        first = next(read(file.readline()), None)
    return isinstance(first, Record) and first.data.get("trajectory_id") == run


_cleaned_directories: set[Path] = set()


def _remove_stale_files(directory: Path, crc: str) -> None:
    """Remove, once a process, what was left by processes that were killed while they wrote a file."""
    if directory in _cleaned_directories:
        return
    _cleaned_directories.add(directory)
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            found = _TEMPORARY_NAME.fullmatch(entry.name)
            if found and not _process_exists(found["pid"]) and (found["crc"] == crc or _is_old(entry)):
                with suppress(OSError):
                    os.unlink(entry)  # noqa: PTH108 - an entry is no Path


def _process_exists(pid: str | None) -> bool:
    """Whether there is a process of this id on this host; of nobody's id: no."""
    if pid is None:
        return False
    if os.name == "nt":  # there, to ask would be to end it
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_old(entry: os.DirEntry[str]) -> bool:
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_SECONDS


def _numbered_paths(document: Path) -> Iterator[Path]:
    """The path itself, then with numbers: run.json, run.1.json, run.2.json …"""
    yield document
    for number in itertools.count(1):
        yield document.with_name(f"{document.stem}.{number}{document.suffix}")


def _move_aside(document: Path) -> tuple[Path, Path] | None:
    """Give the files of an earlier run a number, unless its writer, or another mover, holds them.

    Return which file that was, and its new name; None where there was nothing to move.
    """
    journal = journal_path_for(document)
    has_document = os.path.lexists(document)
    if not (has_document or os.path.lexists(journal)):
        return None
    with hold_lock(journal) as is_held:
        asides = itertools.islice(_numbered_paths(document), 1, None) if is_held else iter(())
        for aside in asides:
            if not os.path.lexists(aside) and _rename_if_free(journal, journal_path_for(aside)):
                _rename_if_free(document, aside)
                return (document, aside) if has_document else (journal, journal_path_for(aside))
    return None


def _rename_if_free(path: Path, to: Path) -> bool:
    """Move a file, if it is there, to a name that nobody has; False where somebody has it."""
    try:
        rename_exclusive(path, to)
    except FileNotFoundError:
        return True
    except FileExistsError:
        return False
    return True
