"""Cursor's database `state.vscdb`, in which each conversation is a composer with bubbles.

A bubble is a prompt (type 1) or a part of an answer (type 2): a thought, a text, or a tool call with its result.
`modelCallId` names the call of the model that asked for a tool. The first thought or text after a tool begins the next
call. Results are Cursor's own JSON, and not the text that the model saw. The counts of tokens are those of a turn, in
its last bubble; all others are 0. A system prompt is not stated.

    globalStorage/state.vscdb            `cursorDiskKV` has "composerData:<composer>", "bubbleId:<composer>:<bubble>"
    workspaceStorage/*/state.vscdb       `ItemTable` has "composer.composerData", until 2024 with all bubbles

Source: databases of Cursor of November 2024 and October 2025.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, json_value
from trace_recorder.formats.foreign_runs.agent_history import AnswerParts
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.sqlite_file import Database, is_database, open_database
from trace_recorder.formats.foreign_runs.stated_values import stated_call, stated_members, stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_COMPOSERS = "cursorDiskKV", "where key >= 'composerData:' and key < 'composerData;'"
_LIST = "ItemTable", "where key = 'composer.composerData'"
"""The table and the rows of the composers, and of the list of all composers of a workspace."""
_PROMPT, _ANSWER = 1, 2
_STATUSES: dict[str, Status] = {"completed": "completed", "aborted": "interrupted"}
_FAILED = {"completed": False, "error": True}
"""Whether a tool failed, by its status."""
_SOURCE_MEMBERS = ("name", "unifiedMode", "contextTokensUsed", "contextTokenLimit")
_READ = ("composerId", "createdAt", "lastUpdatedAt", "status", "modelConfig", "conversation", *_SOURCE_MEMBERS)
_READ_OF_BUBBLE = ("_v", "type", "bubbleId", "createdAt", "text", "thinking", "toolFormerData", "tokenCount")
_READ_OF_TOOL = ("toolCallId", "name", "rawArgs", "result", "status", "modelCallId")


def recognizes(source: Source) -> bool:
    """Return whether the file is a database with composers. Databases of other editors have the same tables."""
    if not is_database(source):
        return False
    with open_database(source) as database:
        table, where = _COMPOSERS
        if any(True for _ in database.rows(table, f"{where} limit 1")):
            return True
        return any(composer.get("conversation") for composer in _listed(database))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each composer that has bubbles, or is damaged."""
    with open_database(source) as database:
        for row in database.rows(*_COMPOSERS):
            name = (as_text(row.get("key")) or "").partition(":")[2]
            yield from _read_composer(database, name, json_value(as_text(row.get("value")) or "{}"))
        for number, composer in enumerate(_listed(database), start=1):
            yield from _read_composer(database, f"{source.path.stem}-{number}", composer)


def _listed(database: Database) -> Iterator[Members]:
    """Yield the composers in the list of a workspace. Those of newer versions have no bubbles."""
    for row in database.rows(*_LIST):
        yield from map(as_dict, as_list(_object(row).get("allComposers")))


def _object(row: Members) -> Members:
    """Return the object in a row."""
    return as_dict(json_value(as_text(row.get("value")) or ""))


def _read_composer(database: Database, name: str, value: Payload) -> Iterator[ForeignRun]:
    """Yield the run of a composer, unless it has no bubbles. The default of its id is `name`."""
    composer, reader = as_dict(value), _BubbleReader(ForeignRun(identity=name))
    heads, bubbles = as_list(composer.get("fullConversationHeadersOnly")), as_list(composer.get("conversation"))
    if not isinstance(value, dict):
        reader.add_gap("the composer", "it is not an object, or is damaged")
    elif not heads and not bubbles:
        return
    reader.read_composer(composer)
    for bubble in map(as_dict, bubbles):
        reader.read_bubble(bubble)
    keys = (f"bubbleId:{name}:{as_text(as_dict(head).get('bubbleId'))}" for head in heads)
    for key in dict.fromkeys(keys):
        bubble = next(map(_object, database.rows("cursorDiskKV", "where key = ?", key)), {})
        if bubble:
            reader.read_bubble(bubble)
        else:
            reader.add_gap(f"the bubble {key}", "it is not in the database, or is damaged")
    reader.close()
    reader.keep_rest("composer", composer, *_READ)
    yield reader.finish()


class _BubbleReader(SessionReader):
    """Reads the bubbles of one composer."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._parts = AnswerParts(self.history)
        self._model_call: Payload = None
        """The `modelCallId` of the last tool."""
        self._model: str | None = None
        self._turns = 0

    def read_composer(self, composer: Members) -> None:
        """Read the facts of the conversation."""
        self.note_identity(composer.get("composerId"))
        self.run.start_time, self.run.end_time = (
            stated_time(composer.get(name)) for name in ("createdAt", "lastUpdatedAt")
        )
        self.run.status = _STATUSES.get(as_text(composer.get("status")) or "", "unknown")
        self.run.source = stated_members(composer, _SOURCE_MEMBERS)
        self._model = self.run.model = as_text(as_dict(composer.get("modelConfig")).get("modelName"))

    def read_bubble(self, bubble: Members) -> None:
        """Read a prompt, or a part of an answer."""
        kind, time = bubble.get("type"), stated_time(bubble.get("createdAt"))
        self._model = as_text(as_dict(bubble.get("modelInfo")).get("modelName")) or self._model
        if kind == _PROMPT:
            self.close()
            self._turns += 1
            self.note_task(bubble.get("text"))
            self.history.add(Message("user", as_text(bubble.get("text"))), time)
        elif kind == _ANSWER:
            self._read_part(bubble, time)
        else:
            self.add_gap(f"the bubble {as_text(bubble.get('bubbleId'))}", "its type is unknown", time)
        used = {name: value for name, value in bubble.items() if value}
        signature = as_dict(bubble.get("thinking")).get("signature")
        self.keep_rest("bubble", used | without_none(signature=signature), *_READ_OF_BUBBLE)

    def close(self) -> None:
        """Add the call whose parts were read."""
        call = self._parts.close()
        if call is not None:
            call.model = self._model
            self.note_model(self._model)

    def _read_part(self, bubble: Members, time: str) -> None:
        tool, text = as_dict(bubble.get("toolFormerData")), as_text(bubble.get("text")) or None
        thought = as_dict(bubble.get("thinking"))
        is_next = thought or text or (tool and tool.get("modelCallId") != self._model_call)
        if self._parts.has_tools and is_next:
            self.close()
        if thought:
            self._parts.add_reasoning(as_text(thought.get("text")) or None, time)
        if text:
            self._parts.add_text(text, time)
        if tool:
            self._read_tool(tool, time)
        counts = as_dict(bubble.get("tokenCount"))
        usage = without_none(
            input_tokens=as_int(counts.get("inputTokens")), output_tokens=as_int(counts.get("outputTokens"))
        )
        if any(usage.values()):
            self.annotate(f"usage_of_turn_{self._turns}", usage, time)

    def _read_tool(self, tool: Members, time: str) -> None:
        """Read a tool call, and its result if there is one. `params` is what Cursor made of the model's `rawArgs`."""
        self._model_call = tool.get("modelCallId")
        arguments = tool.get("rawArgs") or tool.get("params")
        if isinstance(arguments, str):
            arguments = json_value(arguments) or arguments
        call = stated_call(tool.get("toolCallId"), tool.get("name"), arguments)
        self._parts.add_call(call, time)
        result = as_text(tool.get("result"))
        if result is not None:
            failed = _FAILED.get(as_text(tool.get("status")) or "")
            extra = without_none(is_error=failed)
            self._parts.add_result(Message("tool", result, call_id=call.call_id, extra=extra), time)
        self.keep_rest("tool", tool, *_READ_OF_TOOL)


_FILES = ("globalStorage/state.vscdb", "workspaceStorage/*/state.vscdb")
FORMAT = Format(
    name="cursor-database",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(program="Cursor's database", directory=".config/Cursor/User", files=_FILES),
        HomePlace(
            program="Cursor's database on macOS",
            directory="Library/Application Support/Cursor/User",
            files=_FILES,
        ),
    ),
)
