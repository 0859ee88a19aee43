"""OpenHands from version 1 on: events as lines, as a list, or in a conversation's directory; and completion logs.

A conversation's directory has `base_state.json`, by which it is recognised, and a file for each event in `events/`.
ActionEvents with the same `llm_response_id` are one response. The observation of an action names the action's id. A
Condensation removes events from the prompt. The `stats` in `base_state.json` have the tokens, cost and latency of each
response, by its id. Events about the state have only totals. Source: `openhands/sdk/event/`.

A completion log is a file with one request and its response. `messages` and `kwargs` are the request in OpenAI's chat
form, `cost` is in dollars, `latency_sec` in seconds, and `timestamp` is the time of the answer. Source:
`openhands/sdk/llm/utils/telemetry.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects import manual, openai_chat
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, content_of, join_texts
from trace_recorder.formats.foreign_runs.run import (
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import stated_time, text_of
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.formats.openhands_v0 import EventView, add_costs
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_KINDS = {"ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent", "ConversationStateUpdateEvent"}
_STATUS: dict[Payload, Status] = {
    "finished": "completed",
    "error": "failed",
    "stuck": "failed",
    "paused": "interrupted",
    "running": "unknown",
}
_CONDENSER = ForeignAgent(name="condenser", agent_id="condenser")


def recognizes(source: Source) -> bool:
    """Return whether the file has events in its first lines or in a JSON array, or is the state of a conversation."""
    if any(map(_is_event, (line.value for line in source.first_lines))):
        return True
    document = source.document
    return _is_state(document) or any(map(_is_event, as_list(document)[:20]))


def _is_event(value: Payload) -> bool:
    event = as_dict(value)
    kind = event.get("kind")
    return isinstance(kind, str) and kind in _KINDS and {"id", "timestamp", "source"} <= event.keys()


def _is_state(value: Payload) -> bool:
    return {"id", "agent", "workspace", "execution_status"} <= as_dict(value).keys()


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a file or of a conversation's directory."""
    state = as_dict(source.document) if _is_state(source.document) else {}
    reader = _OpenHandsV1Reader()
    events = [*reader.events([*_lines(source, state)])]
    totals = state.get("stats") or reader.stats
    llm = as_dict(as_dict(state.get("agent")).get("llm"))
    statistics = as_dict(as_dict(state.get("stats")).get("usage_to_metrics"))
    for name, metrics in statistics.items():
        calls = [call for call in reader.calls if (call.agent is _CONDENSER) == (name == "condenser")]
        add_costs(calls, as_dict(metrics))
    status = _STATUS.get(as_text(state.get("execution_status")), reader.status)
    yield ForeignRun(
        identity=as_text(state.get("id")) or source.path.name.removesuffix(".jsonl").removesuffix(".json"),
        events=[*events, *([TimedFact.annotation(key="stats", value=totals)] if totals is not None else [])],
        task=reader.task,
        model=as_text(llm.get("model")) or reader.model,
        max_steps=as_int(state.get("max_iterations")),
        start_time=reader.start,
        status="failed" if reader.error and status == "unknown" else status,
        final_result=reader.final_result,
        error=reader.error,
        source=without_none(workspace=state.get("workspace")),
        metadata=without_none(agent=state.get("agent")),
    )


def _lines(source: Source, state: Members) -> Iterator[Line]:
    if not state:
        document = source.document
        is_list = isinstance(document, list)
        yield from (
            (Line(number, event) for number, event in enumerate(document, start=1)) if is_list else source.lines()
        )
        return
    for number, path in enumerate(sorted(source.path.parent.glob("events/*.json")), start=1):
        source.read_too.add(path)
        value = source.neighbour(path).document
        yield Line(number, value, None if value is not None else f"{path.name} is not JSON")


@dataclass(slots=True)
class _OpenHandsV1Reader:
    """Reads the events of a conversation."""

    view: EventView = field(default_factory=EventView)
    answers: dict[str, Members] = field(default_factory=dict)
    groups: dict[str, list[Members]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    tools: list[Payload] = field(default_factory=list)
    stats: Payload = None
    task: str | None = None
    model: str | None = None
    start: str = ""
    status: Status = "unknown"
    final_result: Payload = None
    error: Members | None = None

    def events(self, lines: list[Line]) -> Iterator[Event]:
        for event in map(as_dict, (line.value for line in lines)):
            call_id = event.get("tool_call_id") if event.get("kind") == "AgentErrorEvent" else None
            if identity := as_text(event.get("action_id")) or as_text(call_id):
                self.answers[identity] = event
            if event.get("kind") == "ActionEvent":
                self.groups.setdefault(_response_id(event), []).append(event)
        for line in lines:
            event = as_dict(line.value)
            time = stated_time(event.get("timestamp"))
            self.start = self.start or time
            if not isinstance(event.get("kind"), str):
                yield TimedFact.gap(what=f"event {line.number}", why=line.why or "it has no kind", time=time)
            else:
                yield from self._event(event, time)

    def _event(self, event: Members, time: str) -> Iterator[Event]:
        kind = event["kind"]
        identity = as_text(event.get("id"))
        if kind == "ActionEvent":
            yield from self._action(event, time)
        elif kind == "SystemPromptEvent":
            self.tools = as_list(event.get("tools"))
            parts = [event[name] for name in ("system_prompt", "dynamic_context") if event.get(name)]
            self.view.add(identity, {"role": "system", "content": content_of(parts)})
        elif kind == "MessageEvent":
            yield from self._message(event, time)
        elif kind in {"ObservationEvent", "UserRejectObservation", "AgentErrorEvent"}:
            self.view.add(identity, _result(event))
        elif kind == "Condensation":
            yield from self._condensation(event, time)
        else:
            self._state(event)
            yield TimedFact.unread(what=f"event {kind}", value=event, time=time)

    def _state(self, event: Members) -> None:
        if event["kind"] == "ConversationErrorEvent":
            message = as_text(event.get("detail")) or ""
            self.error = {"type": as_text(event.get("code")) or "error", "message": message}
        elif event["kind"] == "ConversationStateUpdateEvent":
            value = event.get("value")
            changed = as_dict(value) if event.get("key") == "full_state" else {as_text(event.get("key")): value}
            self.status = _STATUS.get(as_text(changed.get("execution_status")), self.status)
            self.stats = changed.get("stats", self.stats)

    def _message(self, event: Members, time: str) -> Iterator[Event]:
        message = as_dict(event.get("llm_message"))
        content = content_of([*_parts(message.get("content")), *as_list(event.get("extended_content"))])
        if event.get("source") != "agent":
            self.task = self.task or (content if isinstance(content, str) else None)
            self.view.add(event.get("id"), {"role": as_text(message.get("role")) or "user", "content": content})
            return
        answer = {"content": content} | without_none(reasoning=as_text(message.get("reasoning_content")) or None)
        yield self._call(event, answer, time)

    def _action(self, event: Members, time: str) -> Iterator[Event]:
        group = self.groups[_response_id(event)]
        if group[0] is event:
            calls = [manual.read_tool_call(_tool_call(action)).to_document() for action in group]
            answer = {"content": content_of(as_list(event.get("thought"))), "tool_calls": calls}
            thoughts = (as_text(as_dict(block).get("thinking")) for block in as_list(event.get("thinking_blocks")))
            reasoning = as_text(event.get("reasoning_content")) or join_texts(thoughts, "\n\n")
            yield self._call(event, answer | without_none(reasoning=reasoning), time)
        action = as_dict(event.get("action"))
        if action.get("kind") == "FinishAction":
            self.final_result = action.get("message")
        yield self._tool(event, time)

    def _call(self, event: Members, message: Members, time: str) -> Call:
        extra = {name: event[name] for name in ("critic_result", "security_risk", "summary") if event.get(name)}
        thinking = as_list(event.get("thinking_blocks"))
        extra |= without_none(thinking_blocks=thinking or None)
        identity, content = as_text(event.get("llm_response_id")), message.get("content")
        text = text_of(content) if isinstance(content, list) else content  # the message in the history keeps its parts
        call = Call(
            time=time,
            conversation=self.view.conversation,
            length=len(self.view.conversation),
            response=message | {"content": text} | without_none(id=identity, extra=extra or None),
            model=self.model,
            tools=self.tools,
        )
        self.calls.append(call)
        self.view.add(event.get("id"), {"role": "assistant", **message})
        return call

    def _tool(self, event: Members, time: str) -> ToolRun:
        call = manual.read_tool_call(_tool_call(event))
        answer = self.answers.get(as_text(event.get("id")) or "") or self.answers.get(call.call_id, {})
        result = _result(answer) if answer else {}
        failed = as_dict(result.get("extra")).get("is_error")
        return ToolRun(
            time=time,
            name=call.name,
            arguments=call.arguments,
            call_id=call.call_id or None,
            ended=stated_time(answer.get("timestamp")) if answer else None,
            success=None if failed is None else not failed,
            result=result.get("content"),
        )

    def _condensation(self, event: Members, time: str) -> Iterator[Event]:
        summary = as_text(event.get("summary"))
        yield TimedFact.unread(what="event Condensation", value=event, time=time)
        if identity := as_text(event.get("llm_response_id")):
            response = {"content": summary, "id": identity}
            call = Call(time=time, conversation=None, response=response, agent=_CONDENSER)
            self.calls.append(call)
            yield call
        message = None if summary is None else {"role": "user", "content": summary}
        forgotten = {name for name in as_list(event.get("forgotten_event_ids")) if isinstance(name, str)}
        self.view.condense(forgotten, message, as_int(event.get("summary_offset")))


def _response_id(event: Members) -> str:
    """Return the id of the response that asked for an action.

    Several actions may have the same response. If the response has no id, return a key that contains the action's id.
    """
    return as_text(event.get("llm_response_id")) or f"event {as_text(event.get('id'))}"


def _tool_call(event: Members) -> Members:
    members = {"id": event.get("tool_call_id"), "name": event.get("tool_name")}
    return without_none(**members) | without_none(**as_dict(event.get("tool_call")))


def _parts(content: Payload) -> list[Payload]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)


def _result(event: Members) -> Members:
    """Return the message of a tool's result."""
    call = without_none(call_id=as_text(event.get("tool_call_id")), name=as_text(event.get("tool_name")))
    if event.get("kind") == "AgentErrorEvent":
        return {"role": "tool", "content": as_text(event.get("error")), **call, "extra": {"is_error": True}}
    if event.get("kind") == "UserRejectObservation":
        reason = f"Action rejected: {as_text(event.get('rejection_reason'))}"
        return {"role": "tool", "content": reason, **call, "extra": {"is_error": True}}
    observation = as_dict(event.get("observation"))
    rest = {name: value for name, value in observation.items() if name != "content" and value is not None}
    content = content_of([*_parts(observation.get("content")), *as_list(event.get("extended_content"))])
    return {"role": "tool", "content": content, **call} | without_none(extra=rest or None)


FORMAT = Format(name="openhands", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))


_KNOWN = {"messages", "tools", "kwargs", "response", "cost", "timestamp", "latency_sec"}


def recognizes_completions(source: Source) -> bool:
    """Return whether the document has the messages of a request, a response with choices, and a latency."""
    document = as_dict(source.document)
    return {"messages", "response", "latency_sec"} <= document.keys() and "choices" in as_dict(document["response"])


def read_completions(source: Source) -> Iterator[ForeignRun]:
    """Yield a run with one call."""
    document = as_dict(source.document)
    rest = {name: value for name, value in document.items() if name not in _KNOWN}
    call = _call_of_completion(document)
    yield ForeignRun(
        identity=source.path.name.removesuffix(".json"),
        model=call.model,
        events=[call],
        metadata={"log": rest} if rest else {},
    )


def _call_of_completion(document: Members) -> Call:
    conversation = ForeignConversation()
    for message in as_list(document.get("messages")):
        for part in openai_chat.read_message(as_dict(message)):
            conversation.add(part.to_document())
    response = openai_chat.read_response(as_dict(document["response"])).to_document()
    if (cost := as_number(document.get("cost"))) is not None:
        response["usage"] = as_dict(response.get("usage")) | {"cost": cost}
    parameters = as_dict(document.get("kwargs"))
    answered, seconds = as_number(document.get("timestamp")), as_number(document.get("latency_sec"))
    requested = answered if answered is None or seconds is None else answered - seconds
    return Call(
        time=stated_time(requested),
        conversation=conversation,
        length=len(conversation),
        response=response,
        model=as_text(response.get("model")),
        tools=as_list(document.get("tools")) or as_list(parameters.get("tools")),
        parameters={name: value for name, value in parameters.items() if name != "tools"},
        duration_seconds=seconds,
    )


COMPLETIONS = Format(
    name="openhands-completions",
    reader=FormatReader(recognizes=recognizes_completions, read=read_completions, counting=WHOLE),
)
