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
from trace_recorder.storage.atomic_rename import take_name
from trace_recorder.storage.journal import Journal, Record, held, read, sync_directory

_OTHER = ".journal.jsonl"
"""What follows the name of a document that does not end in `.json`, or would share the journal of one that does not."""
_LEFT = re.compile(r"\.(?:(?P<pid>\d{1,9})\.(?P<crc>[0-9a-f]{8})|[0-9a-f]{16})\.tmp")
"""Temporary names: of a document that is being written by a process, and of a journal that is being created."""
_LEFT_SECONDS = 60.0
"""How old a temporary file is, at least, that may be of a host, or a container, whose processes cannot be asked for."""


def journal_of(document: Path) -> Path:
    """Where the journal stands that belongs to a document; to a journal, itself."""
    if document.suffix == ".jsonl":
        return document
    if document.suffix == ".json" and not document.name.endswith(".journal.json"):
        return document.with_suffix(".jsonl")
    return document.with_name(document.name + _OTHER)


def document_of(path: Path) -> Path:
    """Where the document stands for a path that the user gave, which may be that of the journal."""
    if path.name.endswith(_OTHER) and path.name != _OTHER:
        return path.with_name(path.name.removesuffix(_OTHER))
    return path.with_suffix(".json") if path.suffix == ".jsonl" else path


def default_name(at: datetime) -> str:
    """The name of a run that begins at `at`, local time."""
    return f"trajectory_{at:%Y%m%d_%H%M%S}.json"


def create(
    document: Path, *, own: bool, sync: bool, child: bool = False, parent: str | None = None
) -> tuple[Path, Journal]:
    """Create the journal, and the directory where it is missing; return where the document goes, and the journal.

    With `own`, `document` is a path that the user gave; with `child`, to the process from which this one was forked,
    whose run has that name or may get it: a child's has a number. So has one whose `parent`, the id of a run of
    another process, has the name. Raises TrajectoryPathError where nothing can be created.
    """
    try:
        return _create(document, own=own, sync=sync, child=child, parent=parent)
    except TrajectoryPathError:
        raise
    except OSError as error:
        why = f"Cannot create the trajectory's files ({error.strerror}); give another path"
        raise TrajectoryPathError(error.errno, why, str(document)) from error
    except ValueError as error:
        raise TrajectoryPathError(errno.EINVAL, f"This is no path ({error}); give another", str(document)) from error


def _create(document: Path, *, own: bool, sync: bool, child: bool, parent: str | None) -> tuple[Path, Journal]:
    if document.is_dir():
        raise TrajectoryPathError(
            errno.EISDIR,
            "This path is a directory; give TrajectoryRecorder the path of a file in it, "
            "or directory= to have the file named by its time",
            str(document),
        )
    for path in (document, journal_of(document)):
        if path.exists() and not path.is_file():  # to open a pipe would be to wait for its reader
            raise TrajectoryPathError(errno.EINVAL, "This path is no file; give the path of one", str(path))
    make_directory(document.parent, sync=sync)
    _sweep(document.parent, f"{crc32(os.fsencode(document.name)):08x}")
    if own and not child and not _is_of(parent, journal_of(document)):
        moved = _move_aside(document)
        if moved is not None:
            message = "%s was there already, of an earlier run: that is %s now"
            try_call(lambda: logger.warning(message, *moved), lambda _: None)
    for candidate in itertools.islice(_numbered(document), int(own and child), None):
        if not os.path.lexists(candidate):
            with suppress(FileExistsError):
                return candidate, Journal.create(journal_of(candidate), sync=sync)
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


def _is_of(run: str | None, journal: Path) -> bool:
    """Whether a journal is of the run that has this id."""
    if run is None or not journal.is_file():
        return False
    with journal.open("rb") as file:
        first = next(read(file.readline()), None)
    return isinstance(first, Record) and first.data.get("trajectory_id") == run


_swept: set[Path] = set()


def _sweep(directory: Path, crc: str) -> None:
    """Remove, once a process, what was left by processes that were killed while they wrote a file."""
    if directory in _swept:
        return
    _swept.add(directory)
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            found = _LEFT.fullmatch(entry.name)
            if found and not _lives(found["pid"]) and (found["crc"] == crc or _is_old(entry)):
                with suppress(OSError):
                    os.unlink(entry)  # noqa: PTH108 - an entry is no Path


def _lives(pid: str | None) -> bool:
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
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFT_SECONDS


def _numbered(document: Path) -> Iterator[Path]:
    """The path itself, then with numbers: run.json, run.1.json, run.2.json …"""
    yield document
    for number in itertools.count(1):
        yield document.with_name(f"{document.stem}.{number}{document.suffix}")


def _move_aside(document: Path) -> tuple[Path, Path] | None:
    """Give the files of an earlier run a number, unless its writer, or another mover, holds them.

    Return which file that was, and its new name; None where there was nothing to move.
    """
    journal = journal_of(document)
    has_document = os.path.lexists(document)
    if not (has_document or os.path.lexists(journal)):
        return None
    with held(journal) as is_held:
        asides = itertools.islice(_numbered(document), 1, None) if is_held else iter(())
        for aside in asides:
            if not os.path.lexists(aside) and _rename(journal, journal_of(aside)):
                _rename(document, aside)
                return (document, aside) if has_document else (journal, journal_of(aside))
    return None


def _rename(path: Path, to: Path) -> bool:
    """Move a file, if it is there, to a name that nobody has; False where somebody has it."""
    try:
        take_name(path, to)
    except FileNotFoundError:
        return True
    except FileExistsError:
        return False
    return True
