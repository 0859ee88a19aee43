"""The fold gives the same trajectory whichever way the records reach it.

The ways are: all records at once, one record at a time while somebody looks, and from the file with little memory. The
journals are recorded ones, imported ones, and each of these with a line missing or with its end cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from tests.data.recorded import by_hand, captured, in_deltas, in_flight, marked, poisoned
from tests.formats.files import produced_files, runs_of
from tests.searching import part_of
from trace_recorder.formats.foreign_runs.journal_writer import journal_lines
from trace_recorder.reading.fold import Fold
from trace_recorder.storage.items.table import JournalFile
from trace_recorder.storage.journal_reader import read_records
from trace_recorder.values.messages import Payload

RECORDED = {run.__name__: run for run in (by_hand, captured, in_deltas, in_flight, marked, poisoned)}
MAX_LOOKS = 25
"""At most about this many times, somebody looks at a journal that grows."""


def document_of(fold: Fold) -> dict[str, Payload]:
    """Return the document of all facts so far."""
    return fold.trajectory("unknown").to_document()


def whole(data: bytes) -> dict[str, Payload]:
    """Return the document of a journal that is read at once."""
    fold = Fold()
    fold.add(read_records(data))
    return document_of(fold)


def grown(data: bytes) -> dict[str, Payload]:
    """Return the document of a journal that is read record by record, while somebody looks at it."""
    fold = Fold()
    lines = [*read_records(data)]
    for number, line in enumerate(lines):
        fold.add([line])
        if number % max(1, len(lines) // MAX_LOOKS) == 0:
            document_of(fold)
    return document_of(fold)


def with_little_memory(data: bytes, path: Path) -> dict[str, Payload]:
    """Return the document of a journal that is read in blocks, whose calls are put away as soon as they have ended."""
    path.write_bytes(data)
    lines = [*read_records(data)]
    with closing(JournalFile(path)) as journal:
        fold = Fold(journal, max_kept_bytes=0)
        for number in range(0, len(lines), 7):
            fold.add(lines[number : number + 7])
        return document_of(fold)


def variants(data: bytes) -> Iterator[bytes]:
    """Yield a journal whole, without one of its lines, and without its end."""
    lines = data.splitlines(keepends=True)
    step = max(1, len(lines) // 8)
    yield data
    for number in range(0, len(lines), step):
        yield b"".join([*lines[:number], *lines[number + 1 :]])
        yield b"".join(lines[:number]) + lines[number][: len(lines[number]) // 2]


def check_ways(journals: Iterable[bytes], directory: Path) -> None:
    """Check that all ways give the same document of each journal."""
    for number, variant in enumerate(journals):
        expected = whole(variant)

        assert grown(variant) == expected, number
        assert with_little_memory(variant, directory / f"{number}.jsonl") == expected, number


@pytest.mark.parametrize("run", RECORDED)
def test_a_recorded_journal_is_read_alike_in_all_ways(run: str, tmp_path: Path) -> None:
    """The document of a recorded run does not depend on the way of its records."""
    journal = RECORDED[run](tmp_path).with_suffix(".jsonl")

    check_ways(variants(journal.read_bytes()), tmp_path)


@cache
def produced() -> dict[str, Path]:
    """Return one produced file of each format of another tool, by the name of the format."""
    return {path.relative_to(path.parents[len(path.parents) - 1]).parts[-2]: path for path in produced_files()}


@pytest.mark.parametrize("name", sorted(produced()))
def test_an_imported_journal_is_read_alike_in_all_ways(name: str, tmp_path: Path) -> None:
    """The document of an imported run does not depend on the way of its records. CI has a third of the variants: the
    whole journal, some without a line, and some without their end.
    """
    for run in runs_of(produced()[name])[:2]:
        check_ways(part_of([*variants(b"".join(journal_lines(run)))], 3), tmp_path)
