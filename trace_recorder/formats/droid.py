"""Factory Droid's sessions: a `session_start` line, then messages of blocks.

The messages form a tree by `id` and `parentId`. Newer versions state the model of an answer (`modelId`).

`<session>.settings.json` beside the session has the model, and the tokens of the whole session. No file has the tokens
of single answers, except those of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_text
from trace_recorder.formats.foreign_runs.agent_history import Position, add_answer, add_message
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_SOURCE_MEMBERS = ("version", "cwd", "title")
_SETTINGS = ".settings.json"
_STATUSES: dict[str, Status] = {"completed": "completed", "cancelled": "interrupted"}
_HIDDEN = "llm_only"
"""The `visibility` of messages that the program wrote."""
_HEAD = Signs(values={"type": {"session_start"}}, members=("id",))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a file."""
    reader = SessionReader(ForeignRun(identity=source.path.stem))
    settings = source.members_of_part(source.path.with_suffix(_SETTINGS), source.path.parent)
    reader.note_model(as_text(settings.get("model")))
    positions: dict[str, Position] = {}
    for line in reader.lines(source):
        time = stated_time(line.get("timestamp"))
        if line.get("type") == "message":
            parent = as_text(line.get("parentId"))
            if parent in positions:
                reader.history.return_to(positions[parent])
            _read_message(reader, as_dict(line.get("message")), time)
            if identity := as_text(line.get("id")):
                positions[identity] = reader.history.position
        else:
            if line.get("type") == "session_start":
                reader.note_identity(line.get("id"))
                reader.run.source |= {name: line[name] for name in _SOURCE_MEMBERS if name in line}
            elif line.get("type") == "agent_turn_outcome":
                reader.run.status = _STATUSES.get(as_text(line.get("reason")) or "", "unknown")
            reader.keep(as_text(line.get("type")) or "line", line, time)
    if usage := as_dict(settings.get("tokenUsage")):
        reader.annotate("session_usage", usage)
        reader.keep_rest("settings", settings, "tokenUsage")
    yield reader.finish()


def _read_message(reader: SessionReader, message: Members, time: str) -> None:
    content = message.get("content")
    if message.get("role") == "assistant":
        call = add_answer(reader.history, {"content": content}, time)
        call.model = as_text(message.get("modelId")) or reader.run.model
        reader.note_model(call.model)
        if (identity := as_text(message.get("openaiMessageId"))) and call.response is not None:
            call.response["id"] = identity
        return
    visibility = as_text(message.get("visibility"))
    add_message(reader.history, content, time, without_none(visibility=visibility))
    if visibility != _HIDDEN:
        reader.note_task(content)


FORMAT = Format(
    name="droid",
    reader=FormatReader(recognizes=_HEAD.in_first_line, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="Factory Droid",
            directory=".factory",
            files=("sessions/**/*.jsonl",),
            variable="FACTORY_HOME_OVERRIDE",
            below=".factory",
            session="sessions/*/{session}.jsonl",
        ),
    ),
)
