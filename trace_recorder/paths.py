"""Where a run's two files go: a name that nobody else has, in a directory that exists.

A journal is created exclusively, so two runs never share a name, in one process or in two. A path that the user
gives is used as it is: what stands there from an earlier run moves aside under a number, never wiped; what stands
there of a run that still goes on stays, and the new run takes a number.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from trace_recorder.errors import TrajectoryPathError
from trace_recorder.journal import Journal, held, sync_directory
from trace_recorder.renaming import take_name


def journal_of(document: Path) -> Path:
    """Where the journal stands that belongs to a document; to a journal, itself."""
    if document.suffix == ".jsonl":
        return document
    if document.suffix == ".json":
        return document.with_suffix(".jsonl")
    return document.with_name(document.name + ".journal.jsonl")


def document_of(path: Path) -> Path:
    """Where the document stands for a path that the user gave, which may be that of the journal."""
    return path.with_suffix(".json") if path.suffix == ".jsonl" else path


def default_name(at: datetime) -> str:
    """The name of a run that begins at `at`, local time."""
    return f"trajectory_{at:%Y%m%d_%H%M%S}.json"


def create(document: Path, *, own: bool, sync: bool, child: bool = False) -> tuple[Path, Journal]:
    """Create the journal, and the directory where it is missing; return where the document goes, and the journal.

    With `own`, `document` is a path that the user gave; with `child`, to the process from which this one was forked,
    whose run has that name or may get it: a child's has a number. Raises TrajectoryPathError where nothing can be
    created.
    """
    try:
        return _create(document, own=own, sync=sync, child=child)
    except TrajectoryPathError:
        raise
    except OSError as error:
        why = f"Cannot create the trajectory's files ({error.strerror}); give another path"
        raise TrajectoryPathError(error.errno, why, str(document)) from error
    except ValueError as error:
        raise TrajectoryPathError(errno.EINVAL, f"This is no path ({error}); give another", str(document)) from error


def _create(document: Path, *, own: bool, sync: bool, child: bool) -> tuple[Path, Journal]:
    if document.is_dir():
        raise TrajectoryPathError(
            errno.EISDIR,
            "This path is a directory; give TrajectoryRecorder the path of a file in it, "
            "or directory= to have the file named by its time",
            str(document),
        )
    if document.exists() and not document.is_file():
        raise TrajectoryPathError(errno.EINVAL, "This path is no file; give the path of one", str(document))
    make_directory(document.parent, sync=sync)
    if own and not child:
        _move_aside(document)
    for candidate in itertools.islice(_numbered(document), int(own and child), None):
        if not candidate.exists():
            with suppress(FileExistsError):
                return candidate, Journal.create(journal_of(candidate), sync=sync)
    raise AssertionError("unreachable: numbers do not end")


def make_directory(directory: Path, *, sync: bool) -> None:
    """Make a directory, where it is missing, that excludes itself from version control."""
    if directory.is_dir():
        return
    missing = list(itertools.takewhile(lambda parent: not parent.exists(), (directory, *directory.parents)))
    directory.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), (directory / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
    for made in missing if sync else ():
        sync_directory(made.parent)


def _numbered(document: Path) -> Iterator[Path]:
    """The path itself, then with numbers: run.json, run.1.json, run.2.json …"""
    yield document
    for number in itertools.count(1):
        yield document.with_name(f"{document.stem}.{number}{document.suffix}")


def _move_aside(document: Path) -> None:
    """Give the files of an earlier run a number, unless its writer, or another mover, holds them."""
    journal = journal_of(document)
    if not (document.exists() or journal.exists()):
        return
    with held(journal) as is_held:
        asides = itertools.islice(_numbered(document), 1, None) if is_held else iter(())
        for aside in asides:
            if not aside.exists() and _rename(journal, journal_of(aside)):
                _rename(document, aside)
                return


def _rename(path: Path, to: Path) -> bool:
    """Move a file, if it is there, to a name that nobody has; False where somebody has it."""
    try:
        take_name(path, to)
    except FileNotFoundError:
        return True
    except FileExistsError:
        return False
    return True
