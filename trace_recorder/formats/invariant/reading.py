"""Invariant's datasets, and traces that our own view wrote.

A trace has each message once, in OpenAI's form, in the order of the conversation. Source: `invariant-ai` 0.3.5.
Invariant's datasets have a trace in each line, after a line with metadata. If the form has no member for a fact, our
own `writing.py` writes the fact into the `metadata` of a message, a tool call or a line. The prompt of a call is all
earlier messages of its agent. If the agent changed its history, the real prompt was different.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast, get_args

from trace_recorder.dialects.json_access import Members, as_dict, as_int, as_list, as_number, as_text
from trace_recorder.dialects.manual import read_usage
from trace_recorder.dialects.openai_chat import read_message
from trace_recorder.formats.foreign_runs.agent_history import AgentHistory
from trace_recorder.formats.foreign_runs.run import Call, ForeignAgent, ForeignRun, TimedFact, ToolRun
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_flag, stated_time, success_of
from trace_recorder.formats.invariant.own_members import NOT_READ, ONLY_OURS, InvariantMetadata, name_of_part
from trace_recorder.formats.plain_conversations import messages_in, named_conversations
from trace_recorder.values.messages import LLMResponse, Message, Payload, ToolCall, Usage, without_none
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.values.structs import replace
from trace_recorder.values.trajectory import Status

_ROW_MEMBERS = {"messages", "annotations", "metadata"}
_ROW = Signs(members=_ROW_MEMBERS)
_DERIVED = ("metrics", "execution_time", "journal_records")
"""Members of a run's metadata that our view writes, and that are derived again from the imported run."""
_OF_MESSAGE = InvariantMetadata.__annotations__.keys() - NOT_READ
"""Members of a message's metadata that are read, or derived again. All others are kept."""


def recognizes(source: Source) -> bool:
    """Return whether one of the first two lines is a trace of a dataset, or has messages that our view wrote.

    In a file that is one document, the document is examined.
    """
    values = [line.value for line in source.first_lines[:2]] or [source.document]
    return any(_ROW.match(value) or _is_ours(value) for value in values)


def _is_ours(value: Payload) -> bool:
    metadata = (as_dict(as_dict(message).get("metadata")) for message in messages_in(value))
    return any(not members.keys().isdisjoint(ONLY_OURS) for members in metadata)


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of each trace. The first line may be the metadata of the dataset."""
    for name, line in named_conversations(source):
        if line.number > 1 or line.why is not None or _has_messages(line.value):
            yield _run(name, line)


def _has_messages(value: Payload) -> bool:
    return bool(messages_in(value)) or "messages" in as_dict(value)


def _run(name: str, line: Line) -> ForeignRun:
    row = as_dict(line.value)
    metadata = Members(row.get("metadata"))
    run = ForeignRun(
        identity=metadata.nonempty_text("trajectory_id") or as_text(row.get("name")) or name,
        parent=metadata.nonempty_text("parent"),
        session=metadata.nonempty_text("session"),
        task=metadata.text("task"),
        provider=metadata.text("provider"),
        model=metadata.text("model"),
        max_steps=metadata.integer("max_steps"),
        start_time=stated_time(metadata.take("start_time")),
        end_time=stated_time(metadata.take("end_time")),
        status=next((status for status in get_args(Status) if status == metadata.get("status")), "unknown"),
        success=stated_flag(metadata.get("success")),
        final_result=metadata.take("final_result"),
        error=metadata.object("error") or None,
        metadata=metadata.object("metadata"),
    )
    if run.success is not None:
        del metadata["success"]
    if metadata.get("status") == run.status:
        del metadata["status"]
    is_ours = _is_ours(line.value)
    if is_ours or as_dict(metadata.get("metrics")).keys() >= {"llm_calls", "redactions"}:
        for derived in _DERIVED:
            metadata.pop(derived, None)
    rest = {key: value for key, value in row.items() if key not in {*_ROW_MEMBERS, "index", "name"}} | metadata.rest()
    if rest:
        if "row" in run.metadata:
            rest["metadata"] = {"row": run.metadata["row"]}
        run.metadata = run.metadata | {"row": rest}
    _TraceReader(run, is_ours=is_ours).read(messages_in(line.value))
    for annotation in as_list(row.get("annotations")):
        _read_annotation(run, as_dict(annotation))
    if line.why is not None or not _has_messages(line.value):
        run.events.append(TimedFact.gap(what=f"line {line.number}", why=line.why or "it has no messages"))
    return run


@dataclass(slots=True)
class _TraceReader:
    """Reads one trace, with a history for each agent. `calls` has the tool calls by the ids that the trace gives them.

    In a trace that our view wrote, only answers of the model have an `interaction_id`. If a message's metadata has an
    `asked_by_model` that is false, the agent ran the tools of the message on its own.
    """

    run: ForeignRun
    is_ours: bool
    histories: dict[str | None, AgentHistory] = field(default_factory=dict)
    calls: dict[str, dict[str, Payload]] = field(default_factory=dict)

    def read(self, messages: list[Payload]) -> None:
        """Add the messages to the run."""
        for number, value in enumerate(messages, start=1):
            members = as_dict(value)
            metadata = cast("InvariantMetadata", as_dict(members.get("metadata")))
            if as_text(members.get("role")) is None:
                self.run.events.append(TimedFact.gap(what=f"message {number}", why="it has no role"))
                continue
            agent = ForeignAgent(
                name=as_text(metadata.get("agent")),
                agent_id=as_text(metadata.get("agent_id")),
                parent_agent_id=as_text(metadata.get("parent_agent_id")),
            )
            key = agent.agent_id or agent.name
            history = self.histories.setdefault(key, AgentHistory(self.run.events, agent))
            if rest := _without(metadata, *_OF_MESSAGE):
                self.run.events.append(TimedFact.unread(what=f"metadata of message {number}", value=rest))
            time = ""
            if metadata.get("asked_by_model") is False:
                time = stated_time(metadata.get("timestamp"))
            for message in read_message(_restored(members, metadata)):
                calls = self._restored_calls(message.tool_calls, as_list(members.get("tool_calls")), time)
                extra = message.extra | as_dict(metadata.get("extra"))
                self._add(history, replace(message, tool_calls=calls, extra=extra), metadata)
        for history in self.histories.values():
            history.finish()

    def _restored_calls(self, calls: Iterable[ToolCall], written: list[Payload], time: str) -> tuple[ToolCall, ...]:
        """Return tool calls with the facts that our view moved into their metadata. Enter them into `calls`.

        `time` is when the calls ran, or "" if the model requested them.
        """
        metadata_of = {as_text(call.get("id")): call.get("metadata") for call in map(as_dict, written)}
        restored = []
        for call in calls:
            members = Members(metadata_of.get(call.call_id))
            call_id, is_made_up = members.text("call_id") or call.call_id, members.take("id_made_up") is True
            extra = call.extra | members.object("extra")
            if rest := members.rest():
                extra["metadata"] = rest
            restored.append(replace(call, call_id=call_id, call_id_made_up=is_made_up, extra=extra))
            self.calls[call.call_id] = restored[-1].to_document() | {"time": time}
        return tuple(restored)

    def _add(self, history: AgentHistory, message: Message, metadata: InvariantMetadata) -> None:
        time = stated_time(metadata.get("timestamp"))
        if metadata.get("asked_by_model") is False and message.role == "assistant":
            return  # the results that follow become executions of these calls
        if message.role == "tool":
            self._add_result(history, message, metadata)
        elif message.role != "assistant":
            if message.role == "user":
                self.run.task = self.run.task or as_text(message.content)
            history.add(message, time)
        elif self.is_ours and "interaction_id" not in metadata:  # the agent itself put the answer into its history
            history.add(message, time)
        else:
            self._add_call(history, message, metadata, time)

    def _add_call(self, history: AgentHistory, message: Message, metadata: InvariantMetadata, time: str) -> None:
        counts, origin = as_dict(metadata.get("usage")), ReplayedFrom.of_document(metadata.get("replayed_from"))
        if origin is not None:
            counts = as_dict(as_dict(metadata["replayed_from"]).get("usage"))
        usage = Usage()
        if counts:
            usage = read_usage(counts)
        response = LLMResponse(
            as_text(message.content),
            reasoning=message.reasoning,
            tool_calls=message.tool_calls,
            finish_reason=as_text(metadata.get("finish_reason")),
            usage=usage,
            model=as_text(metadata.get("model")) or self.run.model,
            extra=message.extra,
        )
        call: Call = history.call(time, response, message)
        call.interaction_id = as_text(metadata.get("interaction_id"))
        call.api = as_text(metadata.get("api")) or call.api
        call.provider = as_text(metadata.get("provider")) or self.run.provider
        call.duration_seconds = as_number(metadata.get("duration_seconds"))
        call.complete = metadata.get("complete") is not False
        call.replayed_from = origin

    def _add_result(self, history: AgentHistory, message: Message, metadata: InvariantMetadata) -> None:
        """Add a tool's result as a message, if the model saw it.

        Add an execution if the model did not see the result, or if the file also has the value that the tool returned.
        """
        call = self.calls.get(message.call_id or "", {})
        message = replace(message, call_id=as_text(call.get("call_id")) or message.call_id)
        is_shown = metadata.get("shown_to_model") is not False
        recorded = metadata.get("result")
        if is_shown:
            history.add(message, "", has_event=recorded is not None)
        if is_shown and recorded is None:
            return
        failed = message.extra.get("is_error")
        execution = ToolRun(
            time=as_text(call.get("time")) or "",
            name=as_text(call.get("name")) or message.name or "",
            arguments=call.get("arguments"),
            call_id=message.call_id,
            ended="",
            success=success_of(failed),
            result=recorded,
            agent=history.agent,
        )
        if recorded is None:
            execution.result = message.content
        if failed is True:
            execution.error = as_text(message.content)
        self.run.events.append(execution)


def _restored(members: dict[str, Payload], metadata: InvariantMetadata) -> dict[str, Payload]:
    """Return a message in OpenAI's form, with most members that our view moved into the metadata.

    `_TraceReader` restores the others: the `extra` of messages, and the facts of tool calls.
    """
    content = members.get("content")
    if isinstance(content, list):
        content = [*_with_parts(content, deque(as_list(metadata.get("parts"))))]
    calls = [_without(as_dict(call), "metadata") for call in as_list(members.get("tool_calls"))]
    restored = _without(members, "metadata")
    if members["role"] == "tool":
        identity = restored.pop("id", None)
        restored |= without_none(tool_call_id=members.get("tool_call_id") or identity)
    return restored | without_none(
        role=as_text(metadata.get("original_role")) or members["role"],
        content=content,
        tool_calls=calls or None,
        name=metadata.get("name"),
        reasoning_content=metadata.get("reasoning"),
        is_error=metadata.get("is_error"),
    )


def _without(members: Mapping[str, Payload], *names: str) -> dict[str, Payload]:
    return {name: value for name, value in members.items() if name not in names}


def _with_parts(content: Sequence[Payload], parts: deque[Payload]) -> Iterator[Payload]:
    """Yield the parts of a content. A text that our view wrote in place of a part is replaced by the part."""
    for element in content:
        if parts and as_dict(element).get("text") == name_of_part(parts[0]):
            yield parts.popleft()
        else:
            yield element


def _read_annotation(run: ForeignRun, annotation: dict[str, Payload]) -> None:
    """Add an annotation to the run: as a reward or an annotation if our view wrote it, and otherwise unchanged."""
    metadata, content = as_dict(annotation.get("extra_metadata")), annotation.get("content")
    value, kind = as_number(metadata.get("value")), metadata.get("kind")
    if kind == "reward" and value is not None:
        weight = as_number(metadata.get("weight"))
        if weight is None:
            weight = 1.0
        run.events.append(
            TimedFact.reward(
                name=as_text(metadata.get("name")) or "reward",
                value=value,
                weight=weight,
                step_number=as_int(metadata.get("step_number")),
                explanation=as_text(metadata.get("explanation")),
                time=stated_time(metadata.get("timestamp")),
            )
        )
    elif kind == "annotation" and as_text(metadata.get("key")):
        run.events.append(TimedFact.annotation(key=metadata["key"], value=content))
    else:
        run.events.append(TimedFact.unread(what="annotation", value=annotation))
