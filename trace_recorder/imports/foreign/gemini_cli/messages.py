"""A session's messages, from its two forms.

The older form is one document, `{"sessionId", "messages": [...]}`. The newer one is a file of lines: the members of
that document; messages, of which a later line with the same `id` replaces an earlier one; `{"$set": {...}}` with new
members; and `{"$rewindTo": id}`, by which the session goes back to before that message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.run import Members, Missing
from trace_recorder.imports.foreign.session_lines import session_lines
from trace_recorder.imports.foreign.source import Line, Source

_ABOUT = {"sessionId", "projectHash"}
_SPEAKERS = {"user", "gemini"}
REWIND = "$rewindTo"


@dataclass(slots=True)
class Session:
    """What a file says: of the session, and in which order. `others` are lines without a place, with their numbers."""

    about: Members = field(default_factory=dict)
    messages: list[Members] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    others: list[Members] = field(default_factory=list)


def is_session(source: Source) -> bool:
    """Whether a file is a session, in either form."""
    first = [as_dict(line.value) for line in source.first_lines]
    if first and {*first[0]} >= _ABOUT and "messages" not in first[0]:
        return True
    if source.head.lstrip()[:1] != b"{" or len(first) > 1:
        return False
    document = as_dict(source.document)
    kinds = {as_text(as_dict(one).get("type")) for one in as_list(document.get("messages"))}
    return "sessionId" in document and bool(kinds & _SPEAKERS) and ("projectHash" in document or "gemini" in kinds)


def read_session(source: Source) -> Session:
    """Read a file in either form."""
    first = as_dict(source.first_lines[0].value) if source.first_lines else {}
    if {*first} >= _ABOUT and "messages" not in first:
        return _from_lines(source.lines())
    document = as_dict(source.document)
    session = Session({name: value for name, value in document.items() if name != "messages"})
    for number, message in enumerate(as_list(document.get("messages")), start=1):
        if isinstance(message, dict):
            session.messages.append(message)
        else:
            session.missing.append(Missing(what=f"message {number}", why="it is no object"))
    return session


def _from_lines(lines: Iterable[Line]) -> Session:
    session = Session()
    places: dict[str, int] = {}
    for members in _each_line(lines, session):
        identity = as_text(members.get("id"))
        if identity in places and "type" in members:
            session.messages[places[identity or ""]] = members
        elif "type" in members or REWIND in members:
            places |= {} if identity is None else {identity: len(session.messages)}
            session.messages.append(members)
        elif "sessionId" in members:
            session.about |= members
        else:
            session.others.append(members)
    return session


def _each_line(lines: Iterable[Line], session: Session) -> Iterator[Members]:
    """Yield the lines, and the messages that a `$set` states, such as the context with which a session begins."""
    for members in session_lines(lines, session.missing.append):
        changes = members.get("$set")
        if not isinstance(changes, dict):
            yield members
            continue
        session.about |= {name: value for name, value in changes.items() if name != "messages"}
        yield from (message for message in as_list(changes.get("messages")) if isinstance(message, dict))
