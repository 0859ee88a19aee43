"""`Format`, the record of all that the package knows of one format of another tool.

A module or a folder of this room has one record for each of its formats. A program that reads or writes a format of its
own passes its record to `register_format` of `trace_recorder.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format_writer import FormatWriter
from trace_recorder.values.token_counts import Counting


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatReader:
    """How to recognise and read the files of another tool. Every member is required."""

    recognizes: Callable[[Source], bool]
    """Returns whether a file has this format.

    The function reads only the file's first lines, or the file as one document.
    """
    read: Callable[[Source], Iterator[ForeignRun]]
    """Yields the runs of a file.

    A part that cannot be read becomes a gap of the run. Raises TrajectoryFormatError if the file as a whole
    cannot be read.
    """
    counting: Counting
    """Which tokens the tool's counts of input and output leave out: cached tokens, tokens of thoughts, or no tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePlace:
    """Where a program keeps its sessions on the machine of a user. `import --home` and `proxy --join` look there."""

    program: str
    """The name of the program, as its makers write it."""
    directory: str
    """The directory of the program, below the user's home directory."""
    files: Sequence[str]
    """Patterns of the files with sessions, below `directory`. `**` means any directories.

    Other files may match too: each file is recognised by its content before it is imported.
    """
    variable: str | None = None
    """The environment variable that names another directory in place of `directory`."""
    below: str = ""
    """The part of `directory` that comes below the directory that `variable` names."""
    session: str | None = None
    """The pattern of the file of one session, with `{session}` in place of its id if the name of the file has the id.

    It is None if `proxy --join` does not read the program's files.
    """

    def root(self, home: Path, variables: Mapping[str, str]) -> Path:
        """Return the program's directory. `variables` is the environment."""
        named = variables.get(self.variable or "")
        if named:
            return Path(named).expanduser() / self.below
        return home / self.directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of another tool: how its files are read, how runs are written in it, or both."""

    name: str
    """The name of the format in journals. It is also the `api` of each imported call whose own `api` is ""."""
    reader: FormatReader | None = None
    writer: FormatWriter | None = None
    export_name: str | None = None
    """The name for `export --format`, if it is not `name`."""
    home: Sequence[HomePlace] = ()
    """Where the programs that write the format keep their files, if these places are known."""
