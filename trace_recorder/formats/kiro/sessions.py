"""Kiro CLI's sessions as lines: each line is a prompt, an answer, or the results of an answer's tools.

The blocks of a message are `{"kind", "data"}`. Only prompts have a time. `<session>.json` beside the session has the
facts of the session and of its turns: the ids of a turn's messages, its end, and its price in credits. The counts of
tokens in it are always 0, so tokens are unknown. `/compact` and `/clear` begin a new conversation. `/rewind` begins a
new session, which names the other session as its parent.

    .kiro/sessions/cli/<session>.jsonl, <session>.json

Source: sessions of Kiro CLI 2.5 to 2.27.
"""

from __future__ import annotations

from base64 import b64encode

from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import add_answer
from trace_recorder.formats.foreign_runs.run import ForeignRun, Members
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_time
from trace_recorder.values.jsonable import to_json
from trace_recorder.values.messages import Message, Payload, without_none
from trace_recorder.values.trajectory import Status

_PROMPT, _ANSWER, _RESULTS = "Prompt", "AssistantMessage", "ToolResults"
_CLEAR, _COMPACTION = "Clear", "Compaction"
LINE = Signs(
    values={"kind": {_PROMPT, _ANSWER, _RESULTS, _CLEAR, _COMPACTION}}, members=("version",), objects=("data",)
)
_SOURCE_MEMBERS = ("cwd", "title", "session_created_reason")
_READ = ("session_id", "parent_session_id", "created_at", "updated_at", *_SOURCE_MEMBERS)
_STATUSES: dict[str, Status] = {"UserTurnEnd": "completed"}
_FAILED = {"success": False, "error": True}
"""Whether a tool failed, by the status of its result."""


def read(source: Source) -> ForeignRun:
    """Return the run of a file."""
    facts = source.members_of_part(source.path.with_suffix(".json"), source.path.parent)
    reader = _KiroReader(ForeignRun(identity=source.path.stem))
    reader.read_facts(facts)
    for line in reader.lines(source):
        reader.read_line(as_text(line.get("kind")) or "line", as_dict(line.get("data")), line)
    reader.keep_rest("session", facts, *_READ)
    return reader.finish()


class _KiroReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._ends: dict[str, tuple[str, str | None]] = {}
        """The time of the end and the model of each turn, by the id of its last message."""

    def read_facts(self, facts: Members) -> None:
        """Read the facts of the session and of its turns."""
        state = as_dict(facts.get("session_state"))
        self.note_identity(facts.get("session_id"))
        self.run.parent = as_text(facts.get("parent_session_id"))
        self.run.start_time, self.run.end_time = (stated_time(facts.get(name)) for name in ("created_at", "updated_at"))
        self.run.source = stated_members(facts, _SOURCE_MEMBERS)
        self.run.model = as_text(as_dict(as_dict(state.get("rts_model_state")).get("model_info")).get("model_id"))
        for turn in map(as_dict, as_list(as_dict(state.get("conversation_metadata")).get("user_turn_metadatas"))):
            self.run.status = _STATUSES.get(as_text(turn.get("end_reason")) or "", "unknown")
            for identity in as_list(turn.get("message_ids"))[-1:]:
                end = stated_time(turn.get("end_timestamp")), as_text(turn.get("model"))
                self._ends[as_text(identity) or ""] = end

    def read_line(self, kind: str, data: Members, line: Members) -> None:
        """Read one line of this kind."""
        time = stated_time(as_dict(data.get("meta")).get("timestamp"))
        blocks = [_block(block) for block in as_list(data.get("content"))]
        if kind == _PROMPT:
            self.add_prompt(blocks, time)
        elif kind == _RESULTS:
            self.add_prompt(blocks, time)
            self.keep_rest("tool results", data, "content", "message_id")
        elif kind == _ANSWER:
            self._read_answer(data, blocks)
        else:
            if kind == _CLEAR:
                self.history.restart()
            elif kind == _COMPACTION:
                summary = Message("user", as_text(data.get("summary")), extra={"type": "compaction"})
                self.history.restart([summary.to_document()])
            self.keep(kind, line, time)

    def _read_answer(self, data: Members, blocks: list[Payload]) -> None:
        """Add a call. Blocks without a text are left out. A thought names the model."""
        models = (as_text(as_dict(as_dict(block).get("data")).get("modelId")) for block in as_list(data.get("content")))
        time, model = self._ends.get(as_text(data.get("message_id")) or "", ("", None))
        model = next(filter(None, models), model) or self.run.model
        content = [block for block in blocks if block not in _EMPTY]
        call = add_answer(self.history, without_none(id=data.get("message_id"), content=content), time)
        call.model = model
        self.note_model(model)


_EMPTY = [{"type": "text", "text": ""}, {"type": "thinking", "thinking": ""}]
"""Blocks of an answer that say nothing."""


def _block(value: Payload) -> Payload:
    """Return a block in Anthropic's form."""
    block = as_dict(value)
    kind, data = as_text(block.get("kind")), block.get("data")
    members = as_dict(data)
    if kind == "text":
        return {"type": "text", "text": as_text(data) or ""}
    if kind == "thinking":
        signature = members.get("signature") or None
        if not members.get("text") and (redacted := _base64(members.get("redactedContent"))):
            return {"type": "redacted_thinking", "data": redacted}
        return without_none(type="thinking", thinking=as_text(members.get("text")) or "", signature=signature)
    if kind == "toolUse":
        use = {"id": members.get("toolUseId"), "name": members.get("name"), "input": members.get("input")}
        return {"type": "tool_use", **use}
    if kind == "toolResult":
        return tool_result(members.get("toolUseId"), as_list(members.get("content")), members.get("status"))
    if kind == "json":
        return {"type": "text", "text": to_json(data)}
    if kind == "image":
        return _image(members)
    return value


def _image(image: Members) -> Payload:
    data = _base64(as_dict(image.get("source")).get("data"))
    if not data:
        return {"type": "image", "source": image}
    media_type = f"image/{as_text(image.get('format')) or 'png'}"
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _base64(numbers: Payload) -> str:
    """Return bytes, which Kiro states as a list of numbers, in base64. Return "" for any other value."""
    try:
        return b64encode(bytes(as_list(numbers))).decode()
    except (TypeError, ValueError):
        return ""


def tool_result(call_id: Payload, parts: list[Payload], status: Payload) -> Members:
    """Return the result of a tool in Anthropic's form. `parts` are blocks with a `kind`."""
    content: Payload = [_block(part) for part in parts]
    if len(parts) == 1:
        content = as_text(as_dict(as_list(content)[0]).get("text")) or content
    failed = _FAILED.get((as_text(status) or "").lower())
    return {"type": "tool_result", "tool_use_id": call_id, "content": content} | without_none(is_error=failed)
