"""The files that the viewer serves, and their states: the runs in and below one directory, or some files of it.

The name of a run is its path from the directory. A link that leads out of the directory is never served. The same holds
for a run whose file became such a link after it was listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trace_recorder.catalog.planning import State
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.storage.run_files import NO_FILE, FileState, run_files


class ServedFiles:
    """The runs in and below one directory, or some files of one directory.

    Raises ValueError for several places that are not files of one directory.
    """

    def __init__(self, places: tuple[Path, ...]) -> None:
        is_directory = len(places) == 1 and places[0].is_dir()
        files = [] if is_directory else [place.resolve() for place in places]
        if any(file.is_dir() or file.parent != files[0].parent for file in files):
            raise ValueError("several files are served together if they lie in one directory")
        self.directory = places[0] if is_directory else files[0].parent
        self.only = None if is_directory else {file.name for file in files}
        """The names of the files, if not all of the directory are served."""

    def states(self) -> Iterator[tuple[str, State]]:
        """Yield the name of each run, and the state of its files. Raises OSError if the directory cannot be read."""
        start = len(str(self.directory / "_")) - 1
        for run in run_files(self.directory, recursive=self.only is None):
            if self.only is None or not self.only.isdisjoint((run.path.name, journal_path_for(run.path).name)):
                document, journal = self._state(run.entry), self._state(run.journal)
                if document is not None and journal is not None:
                    yield str(run.path)[start:].replace(os.sep, "/"), (*document, *journal)

    def state_of(self, name: str) -> State | None:
        """Return the state of the files of one run; None if the run is gone or leads out of the directory."""
        path = self.directory / name
        journal = journal_path_for(path)
        document_state = self._state(path)
        journal_state = self._state(journal if journal != path and os.path.lexists(journal) else None)
        return None if document_state is None or journal_state is None else (*document_state, *journal_state)

    def path_of(self, name: str) -> Path | None:
        """Return the path of a run that was listed; None if it leads out of the directory by now."""
        path = self.directory / name
        is_here = all(self._is_within(file) for file in (path, journal_path_for(path)) if os.path.lexists(file))
        return path if is_here else None

    def _state(self, file: os.DirEntry[str] | Path | None) -> FileState | None:
        """Return the state of a file; None if the file is gone or leads out of the directory."""
        if file is None:
            return NO_FILE
        try:
            if file.is_symlink() and not self._is_within(Path(file)):
                return None
            state = file.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size

    def _is_within(self, file: Path) -> bool:
        """Whether a path leads to a file in or below the directory."""
        try:
            real = file.resolve(strict=True)
            return real.is_file() and real.is_relative_to(self.directory.resolve())
        except (OSError, RuntimeError):  # the file is gone, or links form a loop, which raises either error
            return False
