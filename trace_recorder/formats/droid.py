"""Factory Droid's sessions: a `session_start` line, then messages of blocks.

The messages form a tree by `id` and `parentId`.

The lines state neither the model nor tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.agent_history import (
    AgentHistory,
    Position,
    add_answer,
    add_message,
    first_text,
)
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import without_none
from trace_recorder.values.token_counts import WHOLE

_SOURCE_MEMBERS = ("version", "cwd", "title")
_HIDDEN = "llm_only"
"""The `visibility` of messages that the program wrote."""


def recognizes(source: Source) -> bool:
    """Return whether the first line starts a session."""
    first = as_dict(source.first_lines[0].value) if source.first_lines else {}
    return first.get("type") == "session_start" and "id" in first


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.stem)
    history = AgentHistory(run.events)
    positions: dict[str, Position] = {}
    for members in session_lines(source.lines(), run.events.append):
        time = stated_time(members.get("timestamp"))
        if members.get("type") == "message":
            parent = as_text(members.get("parentId"))
            if parent in positions:
                history.return_to(positions[parent])
            _read_message(run, history, as_dict(members.get("message")), time)
            if identity := as_text(members.get("id")):
                positions[identity] = history.position
        else:
            if members.get("type") == "session_start":
                run.identity = as_text(members.get("id")) or run.identity
                run.source |= {name: members[name] for name in _SOURCE_MEMBERS if name in members}
            run.events.append(TimedFact.unread(what=as_text(members.get("type")) or "line", value=members, time=time))
    history.finish()
    yield run


def _read_message(run: ForeignRun, history: AgentHistory, message: Members, time: str) -> None:
    if message.get("role") == "assistant":
        call = add_answer(history, {"content": message.get("content")}, time)
        if (identity := as_text(message.get("openaiMessageId"))) and call.response is not None:
            call.response["id"] = identity
        return
    visibility = as_text(message.get("visibility"))
    add_message(history, message.get("content"), time, without_none(visibility=visibility))
    if visibility != _HIDDEN and not run.task:
        run.task = first_text(message.get("content")) or None


FORMAT = Format(name="droid", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
