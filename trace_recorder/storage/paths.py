"""Chooses the paths of a run's two files: a name that no other run has, in a directory that exists.

A journal is created exclusively, so two runs never share a name, in one process or in two. A path that the user gives
is used unchanged. If an earlier run has files at this path, they are renamed to a name with a number. No file is
overwritten. If the earlier run is still being recorded, its files keep their names, and the new run's name gets a
number. A name can be reserved before the run begins. If no run begins, the reserved file is removed.

If any other file of the user is at the path, the path is refused. The files of runs are recognised by their contents.
An empty file, and a journal that ends inside its first record, count as files of a run, because a process that was
killed leaves such files.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import re
import stat
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from trace_recorder.errors import TrajectoryPathError
from trace_recorder.facts import StartFact
from trace_recorder.guard import ignore_failures, logger
from trace_recorder.lazy_patterns import lazy_pattern
from trace_recorder.signal_handlers import ours, suppress
from trace_recorder.storage.atomic_write import create_filled, rename_exclusive, write_all
from trace_recorder.storage.file_system import close_ignoring_errors, hold_file, hold_lock, sync_directory
from trace_recorder.storage.free_names import free_paths
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.journal_reader import LINE_BEGIN, Record, read_records

DEFAULT_DIRECTORY = "trajectories"
DIRECTORY_VARIABLE = "TRACE_RECORDER_DIR"
"""The environment variable that replaces the default directory."""
PRICES_VARIABLE = "TRACE_RECORDER_PRICES"
"""The environment variable that names the file of the user's own prices."""
_JOURNAL_SUFFIX = ".journal.jsonl"
"""The end of a journal's name if the document's name does not end in `.json`, or ends in `.journal.json`.

This suffix is then added to the document's name. For any other document, `.jsonl` replaces `.json`.
"""
_TEMPORARY_NAME = lazy_pattern(r"\.(?:(?P<pid>\d{1,9})\.(?P<crc>[0-9a-f]{8})|[0-9a-f]{16})\.tmp")
"""Matches the name of a temporary file, such as `.123.0a1b2c3d.tmp`.

The temporary file of a document has the id of the process that writes it, and a CRC of the document's name. The
temporary file of a new journal has random digits.
"""
ADDRESS = lazy_pattern(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
"""Matches an address, such as `s3://bucket/runs`, or the `Path` of an address, which has one slash in place of two.

The groups are the scheme, and the rest after the slashes. A scheme has at least two letters, because a single letter is
a drive of Windows.
"""
_STALE_SECONDS = 60.0
"""When a run takes a path, temporary files of processes that no longer exist are removed from its directory.

The files of other runs' documents, and of journals, are removed only if they are older than this. The process that
writes them may run on another host.
"""


def absolute_path(path: Path) -> Path:
    """Return the absolute path. Return an address unchanged, and any path if the working directory was removed."""
    if ADDRESS.fullmatch(path.as_posix()):
        return path
    try:
        return path.absolute()
    except ours(OSError):
        return path


def journal_path_for(document: Path) -> Path:
    """Return the path of the journal of a document. The path of a journal is returned unchanged."""
    if document.suffix == ".jsonl":
        return document
    if document.suffix == ".json" and not document.name.endswith(".journal.json"):
        return document.with_suffix(".jsonl")
    return document.with_name(document.name + _JOURNAL_SUFFIX)


def document_path_for(path: Path) -> Path:
    """Return the path of the document for a path that the user gave, which may be the path of the journal."""
    if path.name.endswith(_JOURNAL_SUFFIX) and path.name != _JOURNAL_SUFFIX:
        return path.with_name(path.name.removesuffix(_JOURNAL_SUFFIX))
    if path.suffix == ".jsonl":
        return path.with_suffix(".json")
    return path


def default_name(start: datetime) -> str:
    """Return the name of the document of a run that begins at `start`, in local time."""
    return f"trajectory_{start:%Y%m%d_%H%M%S}.json"


def looks_like_sentence(path: object) -> bool:
    """Return whether the argument for a path is probably a task.

    A task has three words or more, no slash, and not the suffix of a document or a journal.
    """
    if not isinstance(path, str) or len(path.split()) < 3 or "/" in path or "\\" in path:
        return False
    return not path.endswith((".json", ".jsonl"))


class RunPaths:
    """The paths of a recorder's runs: `path` if it is given, or else names by the time in `directory`.

    A relative path is resolved when this object is made, so a later change of the working directory has no effect.
    """

    def __init__(self, path: str | os.PathLike[str] | None, directory: str | os.PathLike[str], *, sync: bool) -> None:
        self._path = None
        if path is not None:
            self._path = absolute_path(document_path_for(Path(path)))
        is_default = directory == DEFAULT_DIRECTORY
        if is_default:
            directory = os.environ.get(DIRECTORY_VARIABLE) or directory
        self._directory = absolute_path(Path(directory))
        self.chosen_by_program = path is not None or not is_default
        """Whether the program chose the path or the directory. A wrong path is then misuse, and raises."""
        self._sync = sync
        self._is_child = False
        self._reserved: tuple[Path, Journal] | None = None

    def reserve(self, parent: str | None) -> Path:
        """Return the path of the next run's document, and create its journal, so that no other run gets the name.

        `parent` is the trajectory id of the run in the parent process, if any. Raises TrajectoryPathError if the
        journal cannot be created.
        """
        return self._reserve(parent)[0]

    def take(self, parent: str | None) -> tuple[Path, Journal]:
        """Return the path of the document, and the journal, for a run that begins. Raises as `reserve` does."""
        document, journal = self._reserve(parent)
        self._reserved = None
        self._finalizer.detach()
        return document, journal

    def _reserve(self, parent: str | None) -> tuple[Path, Journal]:
        if self._reserved is None:
            own = self._path is not None
            path = self._path or self._directory / default_name(datetime.now())  # noqa: DTZ005 - local time
            self._reserved = create_files(path, own=own, sync=self._sync, child=self._is_child, parent=parent)
            self._finalizer = weakref.finalize(self, self._reserved[1].discard_if_empty)
        return self._reserved

    def disabled_path(self) -> Path:
        """Return the path that a recorder shows if nothing is recorded. No file is created there."""
        return self._path or self._directory / "disabled.json"

    def release_after_fork(self) -> None:
        """Leave the reserved files to the parent process. Called in the child after a fork."""
        self._is_child = True
        if self._reserved is not None:
            with suppress(OSError):
                self._reserved[1].close()
            self._reserved = None

    def __str__(self) -> str:
        return str(self._path or self._directory)


def create_files(
    document: Path, *, own: bool, sync: bool, child: bool = False, parent: str | None = None
) -> tuple[Path, Journal]:
    """Create the journal, and its directory if it is missing. Return the path of the document, and the journal.

    If `own` is True, the user gave the path `document`, and files of an earlier run there are renamed. If this process
    is a forked `child`, the name gets a number, because the parent process may use the name. If the files there belong
    to the run `parent`, the name gets a number too. Raises TrajectoryPathError if a file there does not belong to a
    run, or if the files cannot be created.
    """
    _refuse_address(document)
    with _path_errors(document):
        return _create_files(document.absolute(), own=own, sync=sync, child=child, parent=parent)


_OF_THE_ARGUMENT = {errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR}


def is_wrong_argument(error: TrajectoryPathError) -> bool:
    """Return whether the path is wrong. Otherwise the environment is the cause, such as a full disk."""
    return error.errno in _OF_THE_ARGUMENT


@contextmanager
def _path_errors(document: Path) -> Iterator[None]:
    """Raise TrajectoryPathError in place of an OSError or a ValueError in the block."""
    try:
        yield
    except TrajectoryPathError:
        raise
    except ours(OSError) as error:
        why = f"Cannot create the trajectory's files ({error.strerror}); give another path"
        raise TrajectoryPathError(error.errno, why, str(document)) from error
    except ours(ValueError) as error:
        why = f"This is not a path ({error}); give another one"
        raise TrajectoryPathError(errno.EINVAL, why, str(document)) from error


def create_whole_journal(document: Path, lines: Iterable[bytes]) -> Path:
    """Create a journal with all of its lines, or no journal. A process that is killed leaves only a temporary file.

    The directory is created if it is missing, and the name gets a number if it is taken. Return the path of the
    document, which is not written. Raises TrajectoryPathError if the files cannot be created.
    """
    _refuse_address(document)
    with _path_errors(document):
        _check_path(document)
        make_directory(document.parent, sync=False)
        _remove_stale_files(document)
        temporary = temporary_path(document)
        with suppress(FileNotFoundError):
            temporary.unlink()
        fd, taken = create_filled(
            temporary, lambda number: write_all(number, lines), lambda filled: _take_free_name(filled, document)
        )
        close_ignoring_errors(fd)
        return taken


def _take_free_name(journal: Path, document: Path) -> Path:
    """Rename a temporary file to the first free name of a journal. Return the path of that journal's document."""
    for candidate in free_paths(document, _is_taken):
        if not os.path.lexists(candidate):
            with suppress(FileExistsError):
                rename_exclusive(journal, journal_path_for(candidate))
                return candidate
    raise AssertionError("unreachable: numbers do not end")


def _create_files(document: Path, *, own: bool, sync: bool, child: bool, parent: str | None) -> tuple[Path, Journal]:
    _check_path(document)
    make_directory(document.parent, sync=sync)
    _remove_stale_files(document)
    if own:
        _check_own_files(document, journal_path_for(document))
    if own and not child and not _is_run(journal_path_for(document), parent):
        moved = _move_aside(document)
        if moved is not None:
            message = "%s belonged to an earlier run, and was renamed to %s"
            with ignore_failures:
                logger.warning(message, *moved)
    for candidate in free_paths(document, _is_taken, first=int(own and child)):
        if not os.path.lexists(candidate):
            with suppress(FileExistsError):
                return candidate, Journal.create(journal_path_for(candidate), sync=sync)
    raise AssertionError("unreachable: numbers do not end")


def _refuse_address(document: Path) -> None:
    """Raise TrajectoryPathError for an address. A run is appended to a local file, and locks it."""
    match = ADDRESS.fullmatch(document.as_posix())
    if match is not None:
        why = "Runs are recorded into local files; record into a local directory, and copy its files to the address"
        raise TrajectoryPathError(errno.EINVAL, why, f"{match[1]}://{match[2]}")


def _check_path(document: Path) -> None:
    """Raise TrajectoryPathError if a directory or a special file is at the path of the document or the journal."""
    if document.is_dir():
        raise TrajectoryPathError(
            errno.EISDIR,
            "This path is a directory; give TrajectoryRecorder the path of a file in it, "
            "or directory= to have the file named by its time",
            str(document),
        )
    for path in (document, journal_path_for(document)):
        if _is_special_file(path):  # opening a pipe would wait for its reader
            raise TrajectoryPathError(errno.EINVAL, "This path is not a file; give the path of a file", str(path))


def _is_special_file(path: Path) -> bool:
    """Return whether a path exists and is not a regular file.

    This takes one system call, because another process may move the file between two calls.
    """
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except ours(OSError):
        return False


def make_directory(directory: Path, *, sync: bool) -> None:
    """Create a directory if it is missing: accessible to its owner only, and excluded from version control."""
    if directory.is_dir():
        return
    missing = list(itertools.takewhile(lambda parent: not parent.exists(), (directory, *directory.parents)))
    for made in reversed(missing):
        with suppress(FileExistsError):
            made.mkdir(mode=0o700)
            made.chmod(0o700)  # independent of the umask
    with suppress(OSError), (directory / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("*\n")
    if sync:
        for made in missing:
            sync_directory(made.parent)


def _is_run(journal: Path, trajectory_id: str | None) -> bool:
    if trajectory_id is None or not journal.is_file():
        return False
    try:
        return run_of_journal(journal) == trajectory_id
    except ours(FileNotFoundError):  # another process has renamed it
        return False


def run_of_journal(journal: Path) -> str | None:
    """Return the id of the run whose journal this is, or None if its first line does not say. Raises OSError."""
    with journal.open("rb") as file:
        first = next(read_records(file.readline()), None)
    if isinstance(first, Record) and isinstance(first.fact, StartFact):
        return first.fact.trajectory_id
    return None


_cleaned_directories: set[Path] = set()


def temporary_path(document: Path) -> Path:
    """Return the path at which this process writes a file that will become a document or a journal."""
    return document.with_name(f".{os.getpid()}.{crc_of_name(document)}.tmp")


def crc_of_name(path: Path) -> str:
    """Return the CRC that the name of the temporary file for this path has."""
    return f"{crc32(os.fsencode(path.name)):08x}"


def _remove_stale_files(document: Path) -> None:
    """Remove the temporary files of ended processes from a document's directory, if not done before in this process."""
    directory, crc = document.parent, crc_of_name(document)
    if directory in _cleaned_directories:
        return
    _cleaned_directories.add(directory)
    with suppress(OSError):
        for stale in stale_files(directory):
            if stale.crc != crc and time.time() - stale.path.lstat().st_mtime <= _STALE_SECONDS:
                continue
            with suppress(OSError):
                stale.path.unlink()


class TemporaryFile(NamedTuple):
    """A temporary file of a document or a journal.

    `pid` is the id of the process that writes it, and `crc` the CRC of the name for which it is written. Both are None
    for the temporary file of a new journal.
    """

    path: Path
    pid: str | None
    crc: str | None


def temporary_files(directory: Path) -> Iterator[TemporaryFile]:
    """Yield the temporary files of documents and journals in a directory. Raises OSError."""
    with os.scandir(directory) as entries:
        for entry in entries:
            name = _TEMPORARY_NAME.fullmatch(entry.name)
            if name is not None:
                yield TemporaryFile(directory / entry.name, name["pid"], name["crc"])


def stale_files(directory: Path) -> Iterator[TemporaryFile]:
    """Yield the temporary files in a directory whose processes have ended. Raises OSError."""
    return (file for file in temporary_files(directory) if not process_exists(file.pid))


def remove_temporary_files(document: Path) -> None:
    """Remove the temporary files of a run's files that killed processes have left. Raises OSError.

    The caller holds the lock of the run, so no process writes one of them.
    """
    crc = crc_of_name(document)
    for file in temporary_files(document.parent):
        aside = f".{file.pid}.{crc}.tmp"  # a document that is compared is written beside, by a file of its own
        if file.crc in {crc, crc_of_name(Path(aside))}:
            file.path.unlink()


def process_exists(pid: str | None) -> bool:
    """Return whether a process with this id exists on this host. Return False for None."""
    if pid is None:
        return False
    if os.name == "nt":  # on Windows, os.kill would end the process
        return True
    try:
        os.kill(int(pid), 0)
    except ours(ProcessLookupError):
        return False
    except ours(OSError):
        return True
    return True


def _is_taken(document: Path) -> bool:
    return os.path.lexists(document) or os.path.lexists(journal_path_for(document))


def _move_aside(document: Path) -> tuple[Path, Path] | None:
    """Rename the document and the journal of an earlier run.

    Do nothing if another process holds one of their locks, because it writes or renames them. Return the old and the
    new path of the document, or of the journal if there is no document. Return None if no file was renamed.
    """
    journal = journal_path_for(document)
    has_document, has_journal = os.path.lexists(document), os.path.lexists(journal)
    if not (has_document or has_journal):
        return None
    with ExitStack() as locks:
        # The document is locked too: another process may have renamed its journal already. As long as the document has
        # this name, no run begins here. So the files of a run that begins meanwhile are never renamed.
        if has_document and locks.enter_context(hold_file(document)) is False:
            return None
        if has_journal and not locks.enter_context(hold_lock(journal)):
            return None
        for candidate in free_paths(document, _is_taken, first=1):
            if os.path.lexists(candidate):
                continue
            if has_journal and not _rename_if_free(journal, journal_path_for(candidate)):
                continue
            if _rename_if_free(document, candidate) or has_journal:
                return (document, candidate) if has_document else (journal, journal_path_for(candidate))
    return None


def _rename_if_free(path: Path, to: Path) -> bool:
    """Rename a file if it exists. Return False if the new name is taken, and otherwise True."""
    try:
        rename_exclusive(path, to)
    except ours(FileNotFoundError):
        return True
    except ours(FileExistsError):
        return False
    return True


# ── the files of runs, recognised by their contents ──────────────────────────────────────────────────────────────────

_JOURNAL_BEGIN = LINE_BEGIN.encode()
_DOCUMENT_BEGIN = lazy_pattern(rb'\{\s*"task"\s*:')
_DOCUMENT_MEMBER = b'"llm_interactions"'
_HEAD_BYTES = 256


def _check_own_files(document: Path, journal: Path) -> None:
    """Raise TrajectoryPathError if one of the two files exists and does not belong to a run. Raises OSError."""
    for path, is_own in ((document, _is_document), (journal, _is_journal)):
        try:
            is_refused = path.is_file() and not is_own(path)
        except ours(FileNotFoundError):  # another process has renamed it
            continue
        if is_refused:
            why = "This file is not a run of trace_recorder, and stays as it is; give the path of a new file"
            raise TrajectoryPathError(errno.EEXIST, why, str(path))


def _is_journal(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).lstrip(b"\0\n")  # a crash of the system may leave NULs at the beginning
    return head.startswith(_JOURNAL_BEGIN) or _JOURNAL_BEGIN.startswith(head)


def _is_document(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if not head:
            return True
        if not _DOCUMENT_BEGIN.match(head):
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_DOCUMENT_MEMBER) >= 0
