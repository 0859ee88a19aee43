"""Our own documents without a journal, so that `import` can write a journal for them.

`load` reads such a document directly, without this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trace_recorder.formats.foreign_runs.from_trajectory import foreign_run_of
from trace_recorder.formats.foreign_runs.run import ForeignRun
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.reading.own_files import trajectory_of_document
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.token_counts import WHOLE


def is_document(source: Source) -> bool:
    """Return whether a file is a document of a run that has no journal: our own, or Trae Agent's."""
    document = source.document
    return isinstance(document, dict) and "llm_interactions" in document and not journal_path_for(source.path).is_file()


def _is_own_document(source: Source) -> bool:
    return is_document(source) and "schema_version" in source.document


def read_document(format_name: str, source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a document, as a run of this format."""
    trajectory = trajectory_of_document(source.document, source.path)
    yield foreign_run_of(trajectory, format_name, source.path.name.partition(".")[0])


FORMAT = Format(
    name="document",
    reader=FormatReader(recognizes=_is_own_document, read=partial(read_document, "document"), counting=WHOLE),
)
