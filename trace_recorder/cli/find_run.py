"""The runs of one file that match a query. The file is read for that. A separate process may do this."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from trace_recorder.catalog.kept_runs import row_of_run
from trace_recorder.catalog.matching import Matcher
from trace_recorder.catalog.query import Term
from trace_recorder.catalog.rows import Row
from trace_recorder.imports.loader import load_each
from trace_recorder.tables.remote_files import load_remote, url_of


def matching_rows(path: Path, terms: tuple[Term, ...]) -> list[Row]:
    """Return the rows of the runs in a file that match. Raises as `load` does."""
    matches = _matcher(terms)
    url = url_of(path)
    runs = load_each(path) if url is None else [load_remote(path, url)]
    return [row_of_run(run, path) for run in runs if matches(run)]


@lru_cache(maxsize=1)
def _matcher(terms: tuple[Term, ...]) -> Matcher:
    return Matcher(terms)
