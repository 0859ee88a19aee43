"""Directories of runs for the tests of deletion, and all that is on file in them."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from tests.cli.invoking import recorded
from trace_recorder.catalog.value_tables import FactTables
from trace_recorder.recording.amend import rebuild_document
from trace_recorder.storage.journal import Journal
from trace_recorder.storage.paths import journal_path_for
from trace_recorder.values.messages import Payload


def store(path: Path, answer: str = "a", *, days: float = 0, metadata: Payload = None, **start: Payload) -> Path:
    """Record a run of one call that began and ended some days ago. Return its document.

    `start` has members of the first record to replace, such as `parent`. The id of the run is the stem of its path.
    """
    journal = journal_path_for(recorded(path, answer, metadata=metadata))
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    records[0]["data"] |= {"trajectory_id": path.stem, **start}
    path.unlink()
    journal.unlink()
    moment = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    with closing(Journal.create(journal)) as older:
        for record in records:
            older.append(record["kind"], json.dumps(record["data"]), moment)
    return rebuild_document(path)


def fork_of(parent: str) -> dict[str, Payload]:
    """Return the members of the first record of a fork."""
    return {"parent": parent, "forked_at": {"interaction_id": "llm_1", "step_number": None}}


class FileOnDisk(NamedTuple):
    """The time of a file in nanoseconds, its inode, and its content."""

    changed: int
    inode: int
    content: bytes


def tree(directory: Path) -> dict[str, FileOnDisk]:
    """Return all files and directories below a directory. The content of a directory is empty."""
    files = {}
    for path in sorted(directory.rglob("*")):
        state = os.lstat(path)
        content = path.read_bytes() if path.is_file() else b""
        files[str(path.relative_to(directory))] = FileOnDisk(state.st_mtime_ns, state.st_ino, content)
    return files


def texts_of_indexes(directory: Path) -> dict[str, str]:
    """Return what the indexes below a directory have compressed, by their names, whether or not they are believed."""
    texts = {}
    for path in directory.rglob("*"):
        if path.is_file() and path.read_bytes()[:6] == b"SQLite":
            with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
                tables = FactTables(connection)
                texts[str(path.relative_to(directory))] = "\n".join(tables.contents())
    return texts


def places_of(text: str, directory: Path) -> list[str]:
    """Return the names of the files below a directory that have a text, as bytes or in the rows of a table."""
    found = [name for name, file in tree(directory).items() if text.encode() in file.content]
    found += [name for name, texts in texts_of_indexes(directory).items() if name not in found and text in texts]
    tables = {path: json.dumps(pq.read_table(path).to_pylist(), default=str) for path in directory.rglob("*.parquet")}
    return found + [str(path.relative_to(directory)) for path, rows in tables.items() if text in rows]
