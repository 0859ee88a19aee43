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
from trace_recorder.formats.foreign_runs.signs import Signs
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import joined_text, stated_time, success_of
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.formats.openhands_v0 import EventView, add_costs
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status

_KINDS = {"ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent", "ConversationStateUpdateEvent"}
_EVENT = Signs(values={"kind": _KINDS}, members=("id", "timestamp", "source"))
_STATE = Signs(members=("id", "agent", "workspace", "execution_status"))
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
    if _EVENT.in_any_line(source):
        return True
    document = source.document
    return _STATE.match(document) or any(map(_EVENT.match, as_list(document)[:20]))


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a file or of a conversation's directory."""
    state: Members = {}
    if _STATE.match(source.document):
        state = as_dict(source.document)
    reader = _OpenHandsV1Reader()
    events = [*reader.events([*_lines(source, state)])]
    llm = as_dict(as_dict(state.get("agent")).get("llm"))
    statistics = as_dict(as_dict(state.get("stats")).get("usage_to_metrics"))
    for name, metrics in statistics.items():
        calls = [call for call in reader.calls if (call.agent is _CONDENSER) == (name == "condenser")]
        add_costs(calls, as_dict(metrics))
    run = ForeignRun(
        identity=as_text(state.get("id")) or source.path.name.removesuffix(".jsonl").removesuffix(".json"),
        events=events,
        task=reader.task,
        model=as_text(llm.get("model")) or reader.model,
        max_steps=as_int(state.get("max_iterations")),
        start_time=reader.start,
        status=_STATUS.get(as_text(state.get("execution_status")), reader.status),
        final_result=reader.final_result,
        error=reader.error,
        source=without_none(workspace=state.get("workspace")),
        metadata=without_none(agent=state.get("agent")),
    )
    if run.error and run.status == "unknown":
        run.status = "failed"
    if (totals := state.get("stats") or reader.stats) is not None:
        run.events.append(TimedFact.annotation(key="stats", value=totals))
    yield run


def _lines(source: Source, state: Members) -> Iterator[Line]:
    """Yield the events of a file, or the event of each file in the directory of a state."""
    if state:
        for number, path in enumerate(sorted(source.path.parent.glob("events/*.json")), start=1):
            source.read_too.add(path)
            value = source.neighbour(path).document
            yield Line(number, value, None if value is not None else f"{path.name} is not JSON")
    elif isinstance(source.document, list):
        for number, event in enumerate(source.document, start=1):
            yield Line(number, event)
    else:
        yield from source.lines()


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
            identity = as_text(event.get("action_id"))
            if not identity and event.get("kind") == "AgentErrorEvent":
                identity = as_text(event.get("tool_call_id"))
            if identity:
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
            changed: Members = {as_text(event.get("key")) or "": event.get("value")}
            if event.get("key") == "full_state":
                changed = as_dict(event.get("value"))
            self.status = _STATUS.get(as_text(changed.get("execution_status")), self.status)
            self.stats = changed.get("stats", self.stats)

    def _message(self, event: Members, time: str) -> Iterator[Event]:
        message = as_dict(event.get("llm_message"))
        content = content_of([*_parts(message.get("content")), *as_list(event.get("extended_content"))])
        if event.get("source") != "agent":
            self.task = self.task or as_text(content)
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
        identity, text = as_text(event.get("llm_response_id")), message.get("content")
        if isinstance(text, list):  # the message in the history keeps its parts
            text = joined_text(text)
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
        run = ToolRun(time=time, name=call.name, arguments=call.arguments, call_id=call.call_id or None)
        if answer := self.answers.get(as_text(event.get("id")) or "") or self.answers.get(call.call_id, {}):
            result = _result(answer)
            run.ended, run.result = stated_time(answer.get("timestamp")), result.get("content")
            run.success = success_of(as_dict(result.get("extra")).get("is_error"))
        return run

    def _condensation(self, event: Members, time: str) -> Iterator[Event]:
        summary = as_text(event.get("summary"))
        yield TimedFact.unread(what="event Condensation", value=event, time=time)
        if identity := as_text(event.get("llm_response_id")):
            response = {"content": summary, "id": identity}
            call = Call(time=time, conversation=None, response=response, agent=_CONDENSER)
            self.calls.append(call)
            yield call
        forgotten = {name for name in as_list(event.get("forgotten_event_ids")) if isinstance(name, str)}
        self.view.condense(forgotten, summary, as_int(event.get("summary_offset")))


def _response_id(event: Members) -> str:
    """Return the id of the response that asked for an action.

    Several actions may have the same response. If the response has no id, return a key that contains the action's id.
    """
    return as_text(event.get("llm_response_id")) or f"event {as_text(event.get('id'))}"


def _tool_call(event: Members) -> Members:
    members = {"id": event.get("tool_call_id"), "name": event.get("tool_name")}
    return without_none(**members) | without_none(**as_dict(event.get("tool_call")))


def _parts(content: Payload) -> list[Payload]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return as_list(content)


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


FORMAT = Format(
    name="openhands",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="OpenHands",
            directory=".openhands",
            files=("conversations/*/base_state.json",),
            session="conversations/{session}/base_state.json",
        ),
    ),
)


_KNOWN = {"messages", "tools", "kwargs", "response", "cost", "timestamp", "latency_sec"}


_COMPLETION = Signs(members=("messages", "response/choices", "latency_sec"))


def read_completions(source: Source) -> Iterator[ForeignRun]:
    """Yield a run with one call."""
    document = as_dict(source.document)
    rest = {name: value for name, value in document.items() if name not in _KNOWN}
    call = _call_of_completion(document)
    yield ForeignRun(
        identity=source.path.name.removesuffix(".json"),
        model=call.model,
        events=[call],
        metadata=without_none(log=rest or None),
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
    requested, seconds = as_number(document.get("timestamp")), as_number(document.get("latency_sec"))
    if requested is not None and seconds is not None:  # the file states the time of the answer
        requested -= seconds
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
    reader=FormatReader(recognizes=_COMPLETION.in_document, read=read_completions, counting=WHOLE),
)
