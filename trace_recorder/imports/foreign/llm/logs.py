"""The logs of simonw/llm: its SQLite file, with the tables of all versions since 0.5, or what `llm logs --json` prints.

Source: `llm/migrations.py`, `llm/logs.py` and `llm/cli.py`. Each conversation is a run; llm does not say how one ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.import_format import ImportFormat
from trace_recorder.imports.foreign.llm import entries, tables, threads
from trace_recorder.imports.foreign.run import ForeignRun, Members
from trace_recorder.imports.foreign.source import Source
from trace_recorder.imports.foreign.sqlite_file import MAGIC, Database, opened
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_ENTRY = {"id", "model", "prompt", "response", "conversation_id", "datetime_utc"}


def recognizes(source: Source) -> bool:
    """Whether it is a database with these tables, or a list of entries."""
    if source.head.startswith(MAGIC):
        with opened(source.path) as database:
            return _has_threads(database) or _has_responses(database)
    return _is_entry(next(iter(as_list(source.document)), None))


def _has_threads(database: Database) -> bool:
    chained = database.has("messages", "hash", "parent_hash") and database.has("parts", "message_hash", "payload")
    return chained and database.has("turns", "thread_id", "tip_message_hash")


def _has_responses(database: Database) -> bool:
    return database.has("responses", "id", "model", "prompt", "response", "conversation_id")


def _is_entry(value: Payload) -> bool:
    return as_dict(value).keys() >= _ENTRY


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each conversation."""
    if not source.head.startswith(MAGIC):
        yield from _from_entries([as_dict(entry) for entry in as_list(source.document)])
        return
    with opened(source.path) as database:
        if _has_responses(database):
            for identity, found in tables.conversations(database):
                yield entries.run_of(identity, found)
        if _has_threads(database):
            yield from threads.runs(database)


def _from_entries(listed: list[Members]) -> Iterator[ForeignRun]:
    grouped: dict[str, list[Members]] = {}
    for entry in listed:
        identity = as_text(entry.get("conversation_id")) or as_text(entry.get("id")) or ""
        grouped.setdefault(identity, []).append(entry)
    for identity, found in grouped.items():
        yield entries.run_of(identity, found)


FORMAT = ImportFormat(name="llm", recognizes=recognizes, read=read, counting=WHOLE)
