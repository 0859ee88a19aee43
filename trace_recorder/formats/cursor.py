"""Cursor's sessions as exported lines.

Lines have the facts of the session, its tools, and messages of blocks without times.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory, add_answer, add_message, first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members, TimedFact
from trace_recorder.formats.foreign_runs.source import Source, session_lines
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_META, _TOOLS = "cursor_session_meta", "cursor_available_tools"


def recognizes(source: Source) -> bool:
    """Return whether the first lines describe a session of Cursor."""
    return any(as_dict(line.value).get("type") in (_META, _TOOLS) for line in source.first_lines)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    run = ForeignRun(identity=source.path.stem)
    history = AgentHistory(run.events)
    tools: list[Payload] = []
    for members in session_lines(source.lines(), run.events.append):
        content = as_dict(members.get("message")).get("content")
        if members.get("role") == "assistant":
            call = add_answer(history, {"content": _blocks(content)}, "")
            call.model, call.tools = run.model, tools
        elif members.get("role") == "user":
            run.task = run.task or first_text(content) or None
            add_message(history, content, "")
        else:
            tools = as_list(members.get("tools")) if members.get("type") == _TOOLS else tools
            _read_other(run, members)
    history.finish()
    yield run


def _blocks(content: Payload) -> Payload:
    """Return blocks with thoughts in the form of the Anthropic dialect."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "thinking", "thinking": as_dict(block).get("text")}
        if as_dict(block).get("type") == "thinking" and "text" in block
        else block
        for block in content
    ]


def _read_other(run: ForeignRun, members: Members) -> None:
    kind = as_text(members.get("type"))
    if kind == _META:
        run.identity = as_text(members.get("session_id")) or run.identity
        run.model = as_text(members.get("model"))
    elif kind == "turn_ended":
        run.status = "completed" if members.get("status") == "success" else "unknown"
    run.events.append(TimedFact.unread(what=kind or "line", value=members))


FORMAT = Format(name="cursor", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
