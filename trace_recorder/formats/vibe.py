"""Mistral Vibe's sessions: the journal from which Vibe recovers a session, in segments of lines.

Each line is a record with a `sequence`. `action_intent` begins an action, and `action_result` has its result. An action
of the kind "completion" is a call. Its request has the messages that are new since the revision before it, or all of
them, and the tools if they have changed. An action of the kind "tool" is an execution. Records have no times: the
entries of `projection_delta` have, and are named after their actions. `meta.json` has the model and the times of the
session. A session that another session started has a directory of its own.

    logs/session/unified/<session>/journal/<first sequence>.jsonl, meta.json

Source: mistral-vibe 3.0.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects.json_access import arguments_of, as_dict, as_int, as_list, as_text
from trace_recorder.formats.foreign_runs.agent_history import first_text
from trace_recorder.formats.foreign_runs.run import (
    Call,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Members,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.session_reader import SessionReader
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import counts_at, stated_call, stated_time
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, Usage, without_none
from trace_recorder.values.token_counts import WHOLE

_JOURNAL, _MAIN_PURPOSE = "journal", "agent"
_RECORD = Signs(members=("payload", "sequence", "type", "recovery_journal_record_version"))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the session of a journal: all segments, whichever of them is named."""
    path = source.path.absolute()
    identity, meta, segments = path.stem, {}, [source]
    if path.parent.name == _JOURNAL:
        directory = path.parent.parent
        identity = directory.name
        meta = source.members_of_part(directory / "meta.json", directory)
        others = (source.part(other, directory) for other in sorted(path.parent.glob("*.jsonl")))
        segments = [segment for segment in others if segment is not None]
    reader = _VibeReader(ForeignRun(identity=identity))
    reader.read_meta(meta)
    for segment in segments:
        for record in reader.lines(segment):
            reader.read_record(record)
    yield reader.finish()


@dataclass(slots=True)
class _Prompt:
    """The messages and the tools that an agent sends, as its requests have stated them so far."""

    conversation: ForeignConversation = field(default_factory=ForeignConversation)
    revision: int = 0
    tools: list[Payload] = field(default_factory=list)
    is_known: bool = True
    """Whether all messages are in the journal."""


class _VibeReader(SessionReader):
    """Reads one session."""

    def __init__(self, run: ForeignRun) -> None:
        super().__init__(run)
        self._prompts: dict[str, _Prompt] = {}
        self._calls: dict[str, Call] = {}
        self._tool_runs: dict[str, ToolRun] = {}

    def read_meta(self, meta: Members) -> None:
        """Set the facts of the session from its `meta.json`."""
        config, run = as_dict(meta.get("config")), self.run
        run.model = as_text(config.get("model_name")) or as_text(config.get("active_model"))
        run.parent = as_text(meta.get("parent_session_id"))
        run.start_time, run.end_time = stated_time(meta.get("start_time")), stated_time(meta.get("end_time"))
        cwd = as_dict(meta.get("environment")).get("working_directory")
        run.source |= without_none(cwd=cwd, git_commit=meta.get("git_commit"), git_branch=meta.get("git_branch"))

    def read_record(self, record: Members) -> None:
        """Read a record of the journal."""
        kind, payload = as_text(record.get("type")) or "line", as_dict(record.get("payload"))
        identity = as_text(payload.get("action_id")) or ""
        if kind == "action_intent" and payload.get("kind") == "completion":
            self._begin_call(identity, as_dict(payload.get("request")))
        elif kind == "action_intent" and payload.get("kind") == "tool":
            self._begin_tool(identity, as_dict(payload.get("request")))
        elif kind == "action_result" and identity in self._calls:
            self._end_call(self._calls[identity], as_dict(payload.get("result")))
        elif kind == "action_result" and identity in self._tool_runs:
            _end_tool(self._tool_runs[identity], as_dict(payload.get("result")))
        else:
            if kind == "projection_delta":
                self._read_times(payload)
            self.keep(kind, record)

    def _begin_call(self, identity: str, request: Members) -> None:
        purpose = as_text(request.get("purpose")) or _MAIN_PURPOSE
        prompt = self._prompts.setdefault(purpose, _Prompt())
        model_input = as_dict(request.get("model_input"))
        self._update(prompt, as_dict(model_input.get("messages")))
        catalog = as_dict(model_input.get("tool_catalog"))
        if "tools" in catalog:
            prompt.tools = as_list(catalog.get("tools"))
        call = Call(time="", conversation=None, model=self.run.model, tools=prompt.tools, complete=False)
        if prompt.is_known:
            call.conversation, call.length = prompt.conversation, len(prompt.conversation)
        if purpose != _MAIN_PURPOSE:
            call.agent = ForeignAgent(name=purpose, agent_id=purpose)
        self._calls[identity] = call
        self.run.events.append(call)

    def _update(self, prompt: _Prompt, messages: Members) -> None:
        """Replace or extend the messages of a prompt."""
        if messages.get("type") == "replace":
            prompt.conversation, prompt.is_known = ForeignConversation(), True
        elif as_int(messages.get("base_revision")) != prompt.revision:
            prompt.is_known = False
            self.add_gap("the messages of later calls", "the journal does not have the messages before them")
        prompt.revision = as_int(messages.get("revision")) or 0
        for value in map(as_dict, as_list(messages.get("messages"))):
            message = _message(value)
            prompt.conversation.add(message.to_document())
            if message.role == "user":
                self.note_task(first_text(message.content))

    def _end_call(self, call: Call, result: Members) -> None:
        answer = as_dict(result.get("result"))
        if result.get("type") != "completion_succeeded":
            call.error = _error(result)
            return
        message = _message({"role": "assistant", "content": answer.get("parts")})
        response = LLMResponse(
            as_text(message.content),
            reasoning=message.reasoning,
            tool_calls=message.tool_calls,
            finish_reason=as_text(answer.get("finish_reason")),
            usage=Usage(**counts_at(as_dict(answer.get("usage")), _COUNTS)),
        )
        call.response, call.complete = response.to_document(), True

    def _begin_tool(self, identity: str, request: Members) -> None:
        tool = as_dict(request.get("call"))
        run = ToolRun(
            time="",
            name=as_text(tool.get("name")) or "",
            arguments=tool.get("arguments"),
            call_id=as_text(request.get("call_id")),
        )
        self._tool_runs[identity] = run
        self.run.events.append(run)

    def _read_times(self, payload: Members) -> None:
        """Set the times of calls and executions from the entries that are named after them."""
        for entry in (as_dict(as_dict(change).get("entry")) for change in as_list(payload.get("delta"))):
            kind, _, identity = (as_text(entry.get("id")) or "").partition("-")
            created = stated_time(entry.get("createdAt"))
            call = self._calls.get(identity[:_ID_LENGTH])
            if call is not None:
                call.time = created
            run = self._tool_runs.get(identity)
            if kind == "effect" and run is not None:
                run.time = created
                if run.ended is not None:
                    run.ended = stated_time(entry.get("updatedAt"))


_ID_LENGTH = 36
"""The length of the id of an action."""


def _end_tool(run: ToolRun, result: Members) -> None:
    run.ended = ""
    run.success = result.get("type") == "tool_succeeded"
    value = as_dict(result.get("result"))
    if run.success:
        run.result = value.get("structured_content") or value.get("content")
    else:
        run.error = _error(result)["message"]


def _error(result: Members) -> Members:
    """Return the error of an action that did not succeed."""
    error = as_dict(result.get("error")) or as_dict(as_dict(result.get("result")).get("error"))
    message = as_text(error.get("message")) or as_text(result.get("message")) or ""
    return {"type": as_text(error.get("type")) or as_text(result.get("type")) or "error", "message": message}


def _message(value: Members) -> Message:
    """Return a message whose content is a list of parts."""
    texts: list[Payload] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for part in map(as_dict, as_list(value.get("content"))):
        if part.get("type") == "reasoning":
            thoughts.append(first_text(part.get("content")))
        elif part.get("type") == "tool_call":
            stated = as_dict(part.get("arguments"))
            arguments = stated.get("value", arguments_of(part.get("arguments_json", stated.get("raw"))))
            calls.append(stated_call(part.get("id"), part.get("name"), arguments))
        else:
            texts.append(part)
    content: Payload = texts or None
    if len(texts) == 1 and as_dict(texts[0]).get("type") == "text":
        content = as_dict(texts[0]).get("text")
    extra: Members = {"is_error": True} if value.get("outcome") == "failure" else {}
    return Message(
        as_text(value.get("role")) or "user",
        content,
        call_id=as_text(value.get("tool_call_id")),
        name=as_text(value.get("name")),
        reasoning="\n\n".join(thoughts) or None,
        tool_calls=tuple(calls),
        extra=extra,
    )


_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_input_tokens",
}


FORMAT = Format(
    name="vibe",
    reader=FormatReader(recognizes=_RECORD.in_first_line, read=read, counting=WHOLE),
    home=(HomePlace(program="Mistral Vibe", directory=".vibe", files=("logs/session/unified/*/journal/*.jsonl",)),),
)
