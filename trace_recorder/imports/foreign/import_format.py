"""A format of another tool: one record with all that the package knows of it, in the module that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trace_recorder import registry
from trace_recorder.imports.foreign.run import ForeignRun
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.token_counts import Counting


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFormat:
    """A format of another tool. Every member must be given."""

    name: str
    """Its name on file. It is the `api` of calls that the importer puts together."""
    recognizes: Callable[[Source], bool]
    """Whether a file has this format, by its first lines or its document. It reads no more of the file."""
    read: Callable[[Source], Iterator[ForeignRun]]
    """Yields the runs of a file. A part that cannot be read is a `Missing` event of its run.

    It raises TrajectoryFormatError if the file as a whole cannot be read.
    """
    counting: Counting
    """The parts that the stated token counts include."""


IMPORT_FORMATS: registry.Records[ImportFormat] = registry.IMPORT_FORMATS
