"""Finds opencode's sessions: in files of its older storage, in its database, or in the output of `opencode export`.

Source: `packages/opencode/src/storage/storage.ts`, `packages/opencode/src/session/session.sql.ts`. The storage has
`session/<project>/<session>.json`, `message/<session>/*.json` and `part/<message>/*.json`. The oldest storage has
`part/*.json`, where each part names its message. The database has the tables `session`, `message` and `part`; the last
two have most members as JSON in `data`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trace_recorder.dialects.json_access import as_dict, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.run import Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import Database
from trace_recorder.formats.foreign_runs.stated_values import stated_object


class StoredMessage(NamedTuple):
    """A message, and its parts, as opencode stores them."""

    message: Members
    parts: list[Members]


class StoredSession(NamedTuple):
    """One session: its members, and functions that read its messages and its sub-agents' sessions.

    Each function is called once.
    """

    members: Members
    messages: Callable[[list[TimedFact]], list[StoredMessage]]
    """Returns the messages in the order of time. Appends a gap to its argument for each message that cannot be read."""
    sub_sessions: Callable[[], list[StoredSession]] = list


def exported_session(document: Members) -> StoredSession:
    """Return the session in the output of `opencode export`."""
    messages = [
        StoredMessage(as_dict(message.get("info")), [as_dict(part) for part in as_list(message.get("parts"))])
        for message in map(as_dict, as_list(document.get("messages")))
    ]
    return StoredSession(as_dict(document["info"]), lambda _: _in_order(messages))


def stored_session(source: Source) -> StoredSession:
    """Return the session of a file in the older storage.

    The session of a sub-agent is a file of its own, and becomes a run of its own.
    """
    members = as_dict(source.document)
    identity = as_text(members.get("id")) or ""
    return StoredSession(members, lambda missing: _in_order(_Storage(source, missing).messages(identity)))


@dataclass(slots=True)
class _Storage:
    """The directories of the older storage, found from the file of a session."""

    source: Source
    missing: list[TimedFact]

    def messages(self, session: str) -> Iterator[StoredMessage]:
        """Yield the messages in a session's directory, with their parts."""
        root = self.source.path.absolute().parent.parent.parent
        oldest_parts = self._by_message(root / "part")
        for path in _files(root / "message", session):
            message = self._object(path)
            identity = as_text(message.get("id")) or path.stem
            parts = [self._object(part) for part in _files(root / "part", identity)]
            yield StoredMessage(message, parts or oldest_parts.get(identity, []))

    def _by_message(self, directory: Path) -> dict[str, list[Members]]:
        """Return the parts of the oldest storage, by the ids of their messages.

        This storage has no directories for messages.
        """
        parts: dict[str, list[Members]] = {}
        for path in sorted(directory.glob("*.json")):
            part = self._object(path)
            parts.setdefault(as_text(part.get("messageID")) or "", []).append(part)
        return parts

    def _object(self, path: Path) -> Members:
        self.source.read_too.add(path)
        value = self.source.neighbour(path).document
        if not isinstance(value, dict):
            self.missing.append(TimedFact.gap(what=path.name, why="it is not a JSON object"))
        return as_dict(value)


def _files(directory: Path, name: str) -> list[Path]:
    """Return the files in a directory that a session names. Return [] if the name would lead out of the storage."""
    if name in {"", ".", ".."} or "\x00" in name or Path(name).name != name or "\\" in name:
        return []
    return sorted((directory / name).glob("*.json"))


def is_opencode_database(database: Database) -> bool:
    """Return whether a database is opencode's."""
    sessions = database.has("session", "id", "parent_id", "project_id", "directory", "version", "time_created")
    messages = database.has("message", "id", "session_id", "time_created", "data")
    return sessions and messages and database.has("part", "id", "message_id", "data")


def sessions_in_tables(database: Database) -> Iterator[StoredSession]:
    """Yield the sessions that no other session of the database started, the oldest first."""
    is_first = 'parent_id is null or parent_id = id or parent_id not in (select id from "session")'
    yield from _sessions(database, f"where {is_first} order by time_created, id")


def _sessions(database: Database, where: str, *values: str) -> Iterator[StoredSession]:
    for row in database.rows("session", where, *values):
        identity = as_text(row["id"]) or ""
        time = {"created": row["time_created"], "updated": row.get("time_updated")}
        members = {**row, "projectID": row["project_id"], "parentID": row["parent_id"], "time": time}
        yield StoredSession(members, partial(_messages, database, identity), partial(_started_by, database, identity))


def _started_by(database: Database, session: str) -> list[StoredSession]:
    return [*_sessions(database, "where parent_id = ? and id != parent_id order by time_created, id", session)]


def _messages(database: Database, session: str, missing: list[TimedFact]) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    for row in database.rows("message", "where session_id = ? order by time_created, id", session):
        parts = database.rows("part", "where message_id = ? order by id", row["id"])
        messages.append(StoredMessage(_data(row, "message", missing), [_data(part, "part", missing) for part in parts]))
    return messages


def _data(row: Members, what: str, missing: list[TimedFact]) -> Members:
    members = stated_object(row["data"])
    if not members:
        missing.append(TimedFact.gap(what=f"{what} {row['id']}", why="its data is not a JSON object"))
    return {**members, "id": row["id"]}


def _in_order(messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    return sorted(messages, key=lambda stored: as_number(as_dict(stored.message.get("time")).get("created")) or 0.0)
