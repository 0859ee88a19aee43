"""The runs that are shared, each as a journal: its own, or one that is made from a document or another tool's file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.formats.any_file import load
from trace_recorder.formats.foreign_runs.from_trajectory import foreign_run_of
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.recognition import format_of, read_foreign_runs
from trace_recorder.formats.shared_files import is_shared, shared_runs
from trace_recorder.storage.addresses import remote_address
from trace_recorder.storage.atomic_write import replace_file
from trace_recorder.storage.file_system import is_locked
from trace_recorder.storage.local_copies import copied_ahead
from trace_recorder.storage.paths import journal_path_for

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 80


@dataclass(frozen=True, slots=True)
class RunToShare:
    """A run: the name of its file without its ending, and a journal that nobody writes."""

    name: str
    journal: Path


def runs_to_share(paths: Iterable[Path], directory: Path) -> Iterator[RunToShare]:
    """Yield the runs of these files.

    `directory` gets journals of runs that have none, or are being written, and copies of runs at addresses.

    Raises OSError, and TrajectoryFormatError for a file that is no trajectory.
    """
    for number, path in enumerate(copied_ahead(paths, "files")):
        if remote_address(path) is not None:
            from trace_recorder.storage.remote_files import copy_of_run  # noqa: PLC0415 - few paths are addresses

            copies = directory / f"copy-{number}"
            copies.mkdir()
            path = copy_of_run(path, copies)  # noqa: PLW2901 - the same run
        journal = journal_path_for(path)
        if journal.is_file():
            if is_locked(journal):
                journal = Path(shutil.copyfile(journal, directory / f"{number}.jsonl"))
            yield RunToShare(path.stem.removesuffix(".journal"), journal)
            continue
        for part, lines in enumerate(_journals(path)):
            made = directory / f"{number}-{part}.jsonl"
            replace_file(made, lines)
            yield RunToShare(path.stem, made)


def _journals(path: Path) -> Iterator[Iterable[bytes]]:
    """Yield the lines of a journal for each run of a file that is no journal."""
    source = Source(path)
    if is_shared(source):
        yield from (run.lines for run in shared_runs(source))
    elif format_of(source) is not None:
        yield from map(journal_lines, read_foreign_runs(source))
    else:
        yield journal_lines(foreign_run_of(load(path), "document", path.name.partition(".")[0]))


def unpack(path: Path, directory: Path) -> bool:
    """Write the journals of a shared file into a directory, under names of our own. Return False for any other file.

    Raises OSError, and TrajectoryFormatError if the file is damaged.
    """
    source = Source(path)
    if path.is_dir() or not is_shared(source):
        return False
    taken = _TakenNames()
    for run in shared_runs(source):
        replace_file(directory / f"{taken.add(run.name)}.jsonl", run.lines)
    return True


def names_in_file(names: Iterable[str]) -> Iterator[str]:
    """Yield names for the members of a zip: letters and digits only, and each once."""
    taken = _TakenNames()
    return map(taken.add, names)


class _TakenNames:
    """The names that are taken, on a file system that does not distinguish capitals."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def add(self, name: str) -> str:
        """Return a name like this one that is not taken, and take it."""
        plain = _NOT_IN_NAMES.sub("-", name).strip(".-")[:_MAX_NAME_CHARS] or "run"
        number = 1
        unused = plain
        while unused.lower() in self._names:
            number += 1
            unused = f"{plain}-{number}"
        self._names.add(unused.lower())
        return unused
