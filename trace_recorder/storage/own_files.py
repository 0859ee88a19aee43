"""Distinguishes the files of a run from other files by their contents.

A path that the user gives may be a file of the user. The recorder renames only files of runs. An empty file counts as a
file of a run, because a process that was killed leaves one. A journal that is torn in its first record counts too.
"""

from __future__ import annotations

import errno
import mmap
import re
from pathlib import Path

from trace_recorder.errors import TrajectoryPathError
from trace_recorder.storage.journal_reader import LINE_BEGIN

_JOURNAL_BEGIN = LINE_BEGIN.encode()
_DOCUMENT_BEGIN = re.compile(rb'\{\s*"task"\s*:')
_DOCUMENT_MEMBER = b'"llm_interactions"'
_HEAD_BYTES = 256


def check_own_files(document: Path, journal: Path) -> None:
    """Raise TrajectoryPathError if one of the two files exists and does not belong to a run. Raises OSError."""
    for path, is_own in ((document, _is_document), (journal, _is_journal)):
        if path.is_file() and not is_own(path):
            why = "This file is not a run of trace_recorder, and stays as it is; give the path of a new file"
            raise TrajectoryPathError(errno.EEXIST, why, str(path))


def _is_journal(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).lstrip(b"\0\n")  # a crash of the system may leave blocks of NUL
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
