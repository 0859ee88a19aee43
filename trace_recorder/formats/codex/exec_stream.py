"""Events that `codex exec --json` prints: threads, turns, and items when they start, change and are completed.

Source: Codex CLI 0.169 and its SDK's types. The stream has neither the prompt nor times. Items are texts, thoughts, and
tools with their results. A text or a thought after a tool begins the next answer. Consecutive tools are read as the
tools of one answer. `turn.completed` states the tokens of the thread so far.
"""

from __future__ import annotations

from collections.abc import Iterator

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, join_texts
from trace_recorder.formats.foreign_runs.agent_history import AnswerParts
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Payload, ToolCall

_ENDED = {"completed": False, "failed": True, "declined": True}
"""The statuses of an item that has ended. The value is true if the item failed."""
_TURNS = {"turn.started", "turn.completed", "turn.failed"}
_OF_AN_ITEM = {"id", "type", "status"}
_HEAD, _TURN = Signs(values={"type": {"thread.started"}}, members=("thread_id",)), Signs(values={"type": _TURNS})


def recognizes_stream(source: Source) -> bool:
    """Return whether one of the first lines is an event of a thread."""
    return _HEAD.in_any_line(source) or _TURN.in_any_line(source)


def read_stream(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a stream."""
    reader = _CodexStreamReader(ForeignRun(identity=source.path.name.partition(".")[0], provider="openai"))
    for line in reader.lines(source):
        reader.read_line(line)
    yield reader.finish()


class _CodexStreamReader(SessionReader):
    """Reads one stream."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._answer = AnswerParts(self.history)
        self._open_items: dict[str, Members] = {}
        self._without_id = 0
        self._turns = 0

    def read_line(self, line: Members) -> None:
        kind = as_text(line.get("type")) or "line"
        if kind in {"item.started", "item.updated"}:
            item = as_dict(line.get("item"))
            self._open_items[_key_of(item)] = item
        elif kind == "item.completed":
            self._add_item(as_dict(line.get("item")))
        else:
            self._read_other(kind, line)

    def _read_other(self, kind: str, line: Members) -> None:
        if kind == "thread.started":
            self.note_identity(line.get("thread_id"))
        elif kind == "turn.completed":
            self._turns += 1
            self._close()
            self.run.status, self.run.error = "completed", None
            self.annotate(f"usage_until_turn_{self._turns}", line.get("usage"))
        elif kind in {"turn.failed", "error"}:
            self._close()
            error = as_dict(line.get("error")) or line
            self.run.status = "failed"
            self.run.error = {"type": "error", "message": as_text(error.get("message")) or ""}
        if kind not in {"thread.started", "turn.started"}:
            self.keep(kind, line)

    def finish(self) -> ForeignRun:
        """Return the run, with the items without an end, and the call that gave the last answer."""
        for item in [*self._open_items.values()]:
            self._add_item(item)
        self._close()
        return super().finish()

    def _close(self) -> None:
        call = self._answer.close()
        if call is not None:
            call.provider = self.run.provider

    def _add_item(self, item: Members) -> None:
        kind, identity = as_text(item.get("type")), as_text(item.get("id"))
        self._open_items.pop(_key_of(item), None)
        if not identity:
            self._without_id += 1
            identity = f"without-id-{self._without_id}"
        if kind in {"agent_message", "reasoning"}:
            if self._answer.has_tools:
                self._close()
            if kind == "reasoning":
                self._answer.add_reasoning(as_text(item.get("text")))
            else:
                self._answer.add_text(as_text(item.get("text")))
        elif (call := _tool_call(item, identity)) is not None:
            self._answer.add_call(call)
            if (result := _result(item, identity)) is not None:
                self._answer.add_result(result)
        else:
            self.keep(kind or "item", item)


def _key_of(item: Members) -> str:
    """Return a key that the start and the end of an item share: its id, or its arguments if it has no id."""
    arguments = {name: value for name, value in item.items() if name not in _OF_AN_END}
    return as_text(item.get("id")) or to_json(arguments)


_OF_AN_END = {"status", "aggregated_output", "exit_code", "result", "error", "agents_states", "text"}


def _tool_call(item: Members, identity: str) -> ToolCall | None:
    """Return an item as a tool call, or None if it is not a tool. A list of tasks is not a tool."""
    kind = as_text(item.get("type"))
    if kind == "command_execution":
        return ToolCall(identity, "shell", {"command": item.get("command")})
    if kind == "mcp_tool_call":
        name = join_texts([as_text(item.get("server")), as_text(item.get("tool"))], "__") or ""
        return ToolCall(identity, name, item.get("arguments"))
    if kind == "file_change":
        return ToolCall(identity, "apply_patch", {"changes": item.get("changes")})
    if kind == "web_search":
        return ToolCall(identity, "web_search", {"query": item.get("query")})
    if kind == "collab_tool_call":
        rest = {name: value for name, value in item.items() if name not in {*_OF_AN_ITEM, "tool", "agents_states"}}
        return ToolCall(identity, as_text(item.get("tool")) or "", rest)
    return None


def _result(item: Members, identity: str) -> Message | None:
    """Return the result of an item, or None if the item has not ended."""
    failed = _ENDED.get(as_text(item.get("status")) or "")
    if failed is None:
        return None
    extra: Members = {"is_error": failed}
    if (code := as_int(item.get("exit_code"))) is not None:
        extra["exit_code"] = code
    return Message("tool", _output(item), call_id=identity, extra=extra)


def _output(item: Members) -> str | list[Payload] | None:
    kind = item.get("type")
    if kind == "command_execution":
        return as_text(item.get("aggregated_output"))
    if kind == "mcp_tool_call":
        return as_list(as_dict(item.get("result")).get("content")) or as_text(as_dict(item.get("error")).get("message"))
    if (states := item.get("agents_states")) is not None:
        return [{"type": "agents_states", "agents_states": states}]
    return None
