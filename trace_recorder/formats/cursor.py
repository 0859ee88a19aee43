"""Cursor's sessions: exported lines, and Cursor's own transcripts.

Exported lines have the facts of the session, its tools, and messages of blocks without times. A transcript has only the
messages and, at the end of a turn, a `turn_ended`. It has neither results of tools nor ids of tool calls. The
transcript of a sub-agent does not name the tool call that started the sub-agent:

    projects/<project>/agent-transcripts/<session>/<session>.jsonl
    projects/<project>/agent-transcripts/<session>/subagents/<agent>.jsonl
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import add_answer, first_text
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import text_in_tag
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Payload
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_META, _TOOLS = "cursor_session_meta", "cursor_available_tools"
_HEAD = Signs(values={"type": {_META, _TOOLS}})
_MESSAGE = Signs(values={"role": {"user", "assistant"}}, lists=("message/content",))
_NOT_OF_CURSOR = ("type", "uuid", "id", "timestamp")
"""Members that messages of other programs have."""
_TYPED = "user_query"
"""The tag around the words that the user typed."""
_STATUSES: dict[str, Status] = {"success": "completed", "error": "failed", "aborted": "interrupted"}


def recognizes(source: Source) -> bool:
    """Return whether the file has the lines of an exported session, or the messages of a transcript."""
    if _HEAD.in_any_line(source):
        return True
    first = as_dict(next((line.value for line in source.first_lines), None))
    return _MESSAGE.match(first) and not any(name in first for name in _NOT_OF_CURSOR)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = SessionReader(ForeignRun(identity=source.path.stem))
    directory = source.path.absolute().parent
    if directory.name == "subagents":
        reader.run.parent = directory.parent.name
    tools: list[Payload] = []
    for line in reader.lines(source):
        content = as_dict(line.get("message")).get("content")
        if line.get("role") == "assistant":
            call = add_answer(reader.history, {"content": _blocks(content)}, "")
            call.model, call.tools = reader.run.model, tools
        elif line.get("role") == "user":
            reader.note_task(text_in_tag(first_text(content), _TYPED))
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
        reader.run.status = _STATUSES.get(as_text(line.get("status")) or "", "unknown")
    reader.keep(kind or "line", line)


FORMAT = Format(
    name="cursor",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(HomePlace(program="Cursor", directory=".cursor", files=("projects/*/agent-transcripts/**/*.jsonl",)),),
)
