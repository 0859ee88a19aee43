"""Finds the sessions of programs in the home directory of a user, at the places that the formats state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.guard import ignore_failures
from trace_recorder.registry import IMPORT_FORMATS


@dataclass(frozen=True, slots=True)
class HomeFiles:
    """The files of one program in one format. `format` is the name by which they are chosen. `size` is in bytes."""

    format: str
    program: str
    directory: Path
    files: list[Path]
    size: int


def files_at_home(home: Path, variables: Mapping[str, str]) -> Iterator[HomeFiles]:
    """Yield the files of each program that has files, in the order of the formats.

    `variables` is the environment, in which a program's directory may be named. A directory that cannot be read has no
    files. The contents of the files are not read.
    """
    for name in IMPORT_FORMATS:
        for place in IMPORT_FORMATS.record(name).home:
            directory = place.root(home, variables)
            sizes: dict[Path, int] = {}
            for pattern in place.files:
                with ignore_failures:
                    sizes |= {path: path.stat().st_size for path in directory.glob(pattern) if path.is_file()}
            if sizes:
                files = sorted(sizes, key=lambda path: (len(path.parts), path))  # an agent before its sub-agents
                yield HomeFiles(name, place.program, directory, files, sum(sizes.values()))
