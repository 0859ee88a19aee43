"""Where the files of a recorder's runs go: a name is reserved when it is asked for, and taken when a run begins.

A name that is reserved and never taken is given back with the recorder. How names are found is for `paths.py`.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from trace_recorder.storage import paths
from trace_recorder.storage.journal import Journal

DEFAULT_DIRECTORY = "trajectories"


def looks_like_sentence(path: object) -> bool:
    """Whether a path looks like something else: words with spaces between them, without a suffix or a directory."""
    if not isinstance(path, str) or len(path.split()) < 3 or "/" in path or "\\" in path:
        return False
    return not Path(path).suffix or " " in Path(path).suffix


class RunPaths:
    """The path that a recorder was given, or the directory in which files are named by the time."""

    def __init__(self, path: str | os.PathLike[str] | None, directory: str | os.PathLike[str], *, sync: bool) -> None:
        self._path = None if path is None else paths.document_path_for(Path(path))
        is_default = directory == DEFAULT_DIRECTORY
        self._directory = Path(os.environ.get("TRACE_RECORDER_DIR") or directory if is_default else directory)
        self._sync = sync
        self._is_child = False
        self._reserved: tuple[Path, Journal] | None = None

    def reserve(self, parent: str | None) -> Path:
        """Where the document of the next run goes, whose journal is there from now on; `parent` is a trajectory id.

        Raises TrajectoryPathError where nothing can be created.
        """
        return self._reserve(parent)[0]

    def take(self, parent: str | None) -> tuple[Path, Journal]:
        """The same, and the journal, for a run that begins."""
        document, journal = self._reserve(parent)
        self._reserved = None
        self._finalizer.detach()
        return document, journal

    def _reserve(self, parent: str | None) -> tuple[Path, Journal]:
        if self._reserved is None:
            own = self._path is not None
            path = self._path or self._directory / paths.default_name(datetime.now())  # noqa: DTZ005 - local time
            self._reserved = paths.create_files(
                path.absolute(), own=own, sync=self._sync, child=self._is_child, parent=parent
            )
            self._finalizer = weakref.finalize(self, self._reserved[1].discard_if_empty)
        return self._reserved

    def disabled_path(self) -> Path:
        """Where a run would go that is not recorded at all."""
        return (self._path or self._directory / "disabled.json").absolute()

    def release_after_fork(self) -> None:
        """Leave what was reserved to the process from which this one was forked."""
        self._is_child = True
        if self._reserved is not None:
            with suppress(OSError):
                self._reserved[1].close()
            self._reserved = None

    def __str__(self) -> str:
        return str(self._path or self._directory)
