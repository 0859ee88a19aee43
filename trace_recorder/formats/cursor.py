"""Cursor's sessions as exported lines.

Lines have the facts of the session, its tools, and messages of blocks without times.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import add_answer
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE

_META, _TOOLS = "cursor_session_meta", "cursor_available_tools"
_HEAD = Signs(values={"type": {_META, _TOOLS}})


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = SessionReader(ForeignRun(identity=source.path.stem))
    tools: list[Payload] = []
    for line in reader.lines(source):
        content = as_dict(line.get("message")).get("content")
        if line.get("role") == "assistant":
            call = add_answer(reader.history, {"content": _blocks(content)}, "")
            call.model, call.tools = reader.run.model, tools
        elif line.get("role") == "user":
            reader.add_prompt(content, "")
        else:
            if line.get("type") == _TOOLS:
                tools = as_list(line.get("tools"))
            _read_other(reader, line)
    yield reader.finish()


def _blocks(content: Payload) -> Payload:
    """Return blocks with thoughts in the form of the Anthropic dialect."""
    if not isinstance(content, list):
        return content
    blocks: list[Payload] = []
    for block in content:
        if as_dict(block).get("type") == "thinking" and "text" in block:
            blocks.append({"type": "thinking", "thinking": block["text"]})
        else:
            blocks.append(block)
    return blocks


def _read_other(reader: SessionReader, line: Members) -> None:
    kind = as_text(line.get("type"))
    if kind == _META:
        reader.note_identity(line.get("session_id"))
        reader.run.model = as_text(line.get("model"))
    elif kind == "turn_ended":
        reader.run.status = "completed" if line.get("status") == "success" else "unknown"
    reader.keep(kind or "line", line)


FORMAT = Format(name="cursor", reader=FormatReader(recognizes=_HEAD.in_any_line, read=read, counting=WHOLE))
