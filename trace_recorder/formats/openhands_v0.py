"""OpenHands before version 1: a list of events, or lines, each with such a list as its `history`.

OpenHands' evaluation and its resolver write lines, with the outcome of each run. An event is an `action`, or an
`observation` whose `cause` is the action's id. `tool_call_metadata.model_response` is the whole response that asked for
an action. Several actions may share one response. If an action has no response, the model wrote the action as text: the
action's thought is the response, and the action is a tool that ran. In older events, the members of `args` are members
of the event itself.

`openhands_v1.py` also uses `EventView` and `add_costs`.

Source: `openhands/events/serialization/event.py`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from trace_recorder.dialects import openai_chat
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text, text_part
from trace_recorder.formats.foreign_runs.run import (
    MAIN,
    Call,
    Event,
    ForeignAgent,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
    joined_id,
)
from trace_recorder.formats.foreign_runs.source import Line, Source
from trace_recorder.formats.foreign_runs.stated_values import counts_at, stated_flag, stated_time, success_of
from trace_recorder.formats.format import Format, FormatReader
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE
from trace_recorder.values.trajectory import Status


def add_costs(calls: Sequence[Call], metrics: Members) -> None:
    """Add tokens, latency and costs from metrics to calls.

    Tokens and latencies name the id of their response. Costs have no such id, so they are added only if there are as
    many costs as calls.
    """
    usages, latencies = _by_response(metrics.get("token_usages")), _by_response(metrics.get("response_latencies"))
    costs = [as_number(as_dict(cost).get("cost", cost)) for cost in as_list(metrics.get("costs"))]
    for number, call in enumerate(calls):
        response = as_dict(call.response)
        identity = as_text(response.get("id")) or ""
        usage = counts_at(usages.get(identity, {}), _COUNTS) | as_dict(response.get("usage"))
        if len(costs) == len(calls) and costs[number] is not None:
            usage["cost"] = costs[number]
        if usage:
            call.response = response | {"usage": usage}
        if identity in latencies:
            call.duration_seconds = as_number(latencies[identity].get("latency"))


def _by_response(listed: Payload) -> dict[str, Members]:
    figures = {as_text(element.get("response_id")) or "": element for element in map(as_dict, as_list(listed))}
    figures.pop("", None)
    return figures


_COUNTS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
}


@dataclass(slots=True)
class EventView:
    """The messages that a model sees of a list of events, each with the id of its event."""

    conversation: ForeignConversation = field(default_factory=ForeignConversation)
    _messages: list[tuple[object, Members]] = field(default_factory=list)

    def add(self, event_id: object, message: Members) -> None:
        """Add the message of an event."""
        self._messages.append((event_id, message))
        self.conversation.add(message)

    def condense(self, forgotten: Container[object], summary: str | None, offset: int | None) -> None:
        """Remove the messages of events, and insert a summary at a position, as OpenHands' condenser does.

        Afterwards, `conversation` is a new conversation, which shares the messages before the first change with the old
        conversation.
        """
        remaining = [(event_id, message) for event_id, message in self._messages if event_id not in forgotten]
        if summary is not None and offset is not None:
            remaining.insert(offset, (None, {"role": "user", "content": summary}))
        pairs = zip(self._messages, remaining, strict=False)
        shorter = min(len(self._messages), len(remaining))
        shared = next((position for position, (old, new) in enumerate(pairs) if old is not new), shorter)
        self.conversation, self._messages = self.conversation.branch(shared), remaining[:shared]
        for event_id, message in remaining[shared:]:
            self.add(event_id, message)


_NO_CALLS = {"change_agent_state", "null", "recall", "condensation", "condensation_request", "system"}
"""The actions of an agent for which no model was called."""
_NOT_SEEN = {"agent_state_changed", "null", "recall"}
"""The types of observations that no model sees."""
_FAILED = {"error", "user_rejected"}
_STATUS: dict[Payload, Status] = {"finished": "completed", "error": "failed", "stopped": "interrupted"}
_ENVELOPE = {"id", "timestamp", "source", "message", "cause", "action", "observation", "tool_call_metadata", "timeout"}
_TEXTS = ("thought", "content", "final_thought")
"""The arguments of an action that may have the text of the answer, the first of which is taken."""
_OUTCOME = {"history", "instruction", "metrics", "error", "success", "git_patch", "instance_id"}


def recognizes(source: Source) -> bool:
    """Return whether the file is a list of events, or whether its document or first line has events as `history`."""
    lines = source.first_lines
    if lines and _has_history(lines[0].value):
        return True
    document = source.document
    return _is_event(next(iter(as_list(document)), None)) or _has_history(document)


def _has_history(value: Payload) -> bool:
    members = as_dict(value)
    return ("metrics" in members or "instruction" in members) and any(map(_is_event, _events(members.get("history"))))


def _is_event(value: Payload) -> bool:
    event = as_dict(value)
    has_kind = isinstance(event.get("action"), str) or isinstance(event.get("observation"), str)
    return has_kind and ("source" in event or "content" in event or "command" in event)


def _events(history: Payload) -> list[Payload]:
    """Return the events of a history. Split the pairs of an action and its observation that the oldest files have."""
    events: list[Payload] = []
    for element in as_list(history):
        events += element if isinstance(element, list) else [element]
    return events


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a list of events, or a run for each line."""
    name = source.path.name.removesuffix(".json").removesuffix(".jsonl")
    document = source.document
    if isinstance(document, list):
        yield _run(name, {"history": document})
        return
    lines = source.each_line() if document is None else iter([Line(1, document)])
    for line in lines:
        yield _run(f"{name}-{line.number}", as_dict(line.value), line.why)


def _run(identity: str, members: Members, unreadable: str | None = None) -> ForeignRun:
    reader = _OpenHandsV0Reader()
    history = [as_dict(event) for event in _events(members.get("history"))]
    run = ForeignRun(
        identity=as_text(members.get("instance_id")) or identity,
        events=[*reader.events(history)],
        task=as_text(members.get("instruction")) or reader.task,
        model=reader.model,
        status=reader.status,
        success=stated_flag(members.get("success")),
        final_result=members.get("git_patch") or reader.final_result,
        error=reader.error,
    )
    if history:
        run.start_time, run.end_time = (stated_time(event.get("timestamp")) for event in (history[0], history[-1]))
    add_costs(reader.calls, as_dict(members.get("metrics")))
    if unreadable is not None:
        run.events.append(TimedFact.gap(what="a line with a run", why=unreadable))
    if error := members.get("error"):
        run.status, run.error = "failed", {"type": "error", "message": str(error)}
    metadata = {name: value for name, value in members.items() if name not in _OUTCOME and value is not None}
    totals = {name: value for name, value in as_dict(members.get("metrics")).items() if name != "costs"}
    metadata |= without_none(metrics=totals or None)
    for name, value in metadata.items():
        run.events.append(TimedFact.annotation(key=name, value=value))
    return run


@dataclass(slots=True)
class _OpenHandsV0Reader:
    """Reads the events of a run. `agents` are the active agents, the innermost last."""

    views: list[EventView] = field(default_factory=lambda: [EventView()])
    agents: list[ForeignAgent] = field(default_factory=lambda: [MAIN])
    responses: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    tools: list[Payload] = field(default_factory=list)
    task: str | None = None
    model: str | None = None
    status: Status = "unknown"
    final_result: Payload = None
    error: Members | None = None

    def events(self, history: list[Members]) -> Iterator[Event]:
        for number, (event, answer) in enumerate(_with_answers(history)):
            time = stated_time(event.get("timestamp"))
            if isinstance(event.get("action"), str):
                yield from self._action(event, answer, time)
            elif isinstance(event.get("observation"), str):
                yield from self._observation(event, time)
            else:
                yield TimedFact.gap(what=f"event {number}", why="it is neither an action nor an observation", time=time)

    def _action(self, event: Members, answer: Members, time: str) -> Iterator[Event]:
        action, arguments = event["action"], _arguments(event)
        if action == "message" and not self._is_from_agent(event):
            self.task = self.task or as_text(arguments.get("content"))
            self.views[-1].add(event.get("id"), {"role": "user", "content": _content(arguments)})
        elif action == "system":
            self.tools = as_list(arguments.get("tools"))
            self.views[-1].add(event.get("id"), {"role": "system", "content": as_text(arguments.get("content"))})
        elif action == "condensation":
            yield TimedFact.unread(what="condensation", value=event, time=time)
            self._condense(arguments)
        elif action in _NO_CALLS or not self._is_from_agent(event):
            yield TimedFact.unread(what=f"action {action}", value=event, time=time)
        else:
            yield from self._decision(event, answer, time)

    def _is_from_agent(self, event: Members) -> bool:
        """Return whether an event is the agent's.

        The oldest files do not state the source of an event. In these files, the first message is the user's.
        """
        if "source" in event:
            return as_text(event["source"]) == "agent"
        return event["action"] != "message" or self.task is not None

    def _decision(self, event: Members, answer: Members, time: str) -> Iterator[Event]:
        metadata, arguments = as_dict(event.get("tool_call_metadata")), _arguments(event)
        response = self._response(metadata, arguments, event)
        if response is not None:
            yield self._call(response, event, time)
        if event["action"] == "finish":
            self.status = "completed"
            self.final_result = as_dict(arguments.get("outputs")) or as_text(arguments.get("thought"))
        if event["action"] not in {"message", "finish"}:
            yield self._tool(event, answer, time)

    def _response(self, metadata: Members, arguments: Members, event: Members) -> Members | None:
        """Return the response in which the model asked for this action.

        Return None if an earlier action had the same response.
        """
        whole = as_dict(metadata.get("model_response"))
        if whole:
            identity = as_text(whole.get("id"))
            if identity and identity in self.responses:
                return None
            if identity:
                self.responses.add(identity)
            return openai_chat.read_response(whole).to_document()
        texts = (as_text(arguments[name]) for name in _TEXTS if arguments.get(name))
        response: Members = {"content": next(texts, None)}
        if event["action"] != "message":
            rest = {name: value for name, value in arguments.items() if name not in _TEXTS and value is not None}
            response["extra"] = {"action": event["action"], "args": rest}
        return response

    def _call(self, response: Members, event: Members, time: str) -> Call:
        view = self.views[-1]
        self.model = self.model or as_text(response.get("model"))
        call = Call(
            time=time,
            conversation=view.conversation,
            length=len(view.conversation),
            response=response,
            model=as_text(response.get("model")),
            tools=self.tools,
            agent=self.agents[-1],
        )
        self.calls.append(call)
        more = without_none(tool_calls=response.get("tool_calls"), reasoning=response.get("reasoning"))
        view.add(event.get("id"), {"role": "assistant", "content": response.get("content")} | more)
        return call

    def _tool(self, event: Members, answer: Members, time: str) -> ToolRun:
        metadata, arguments = as_dict(event.get("tool_call_metadata")), _arguments(event)
        run = ToolRun(
            time=time,
            name=as_text(metadata.get("function_name")) or event["action"],
            arguments={name: value for name, value in arguments.items() if name != "thought"},
            call_id=as_text(metadata.get("tool_call_id")),
            success=_success(answer),
            agent=self.agents[-1],
        )
        if answer:
            run.ended, run.result = stated_time(answer.get("timestamp")), _content(answer)
        if event["action"] == "delegate":
            run.execution_id = joined_id("action", str(event.get("id")))
            self._begin_agent(run.execution_id, arguments)
        return run

    def _begin_agent(self, execution: str, arguments: Members) -> None:
        parent = self.agents[-1].agent_id
        name = as_text(arguments.get("agent"))
        self.agents.append(
            ForeignAgent(name=name, agent_id=execution, parent_agent_id=parent, parent_execution_id=execution)
        )
        self.views.append(EventView())

    def _observation(self, event: Members, time: str) -> Iterator[Event]:
        kind = event["observation"]
        if kind in _NOT_SEEN:
            state = as_text(as_dict(event.get("extras")).get("agent_state"))
            self.status = _STATUS.get(state, self.status)
            yield TimedFact.unread(what=f"observation {kind}", value=event, time=time)
            return
        if kind == "delegate" and len(self.views) > 1:
            self.views.pop()
            self.agents.pop()
        if kind == "error" and self.status == "failed":
            self.error = {"type": "error", "message": as_text(event.get("content")) or ""}
        identity = as_text(as_dict(event.get("tool_call_metadata")).get("tool_call_id"))
        extras = as_dict(event.get("extras"))
        if not extras and "exit_code" in event:
            extras = {"exit_code": event["exit_code"]}
        extra = {"observation": kind, **without_none(is_error=success_of(_success(event))), **extras}
        message: Members = {"role": "user", "content": _content(event)}
        if identity is not None:
            message |= {"role": "tool", "call_id": identity}
        self.views[-1].add(event.get("id"), {**message, "extra": extra})

    def _condense(self, arguments: Members) -> None:
        first = as_int(arguments.get("forgotten_events_start_id"))
        last = as_int(arguments.get("forgotten_events_end_id"))
        forgotten: Container[object] = {*map(as_int, as_list(arguments.get("forgotten_event_ids")))} - {None}
        if first is not None and last is not None:
            forgotten = range(first, last + 1)
        summary = as_text(arguments.get("summary"))
        self.views[-1].condense(forgotten, summary, as_int(arguments.get("summary_offset")))


def _with_answers(events: list[Members]) -> Iterator[tuple[Members, Members]]:
    """Yield each event with its observation, or with {} if the event has no observation.

    The observation names the event's id. If the event has no id, the next event may be its observation.
    """
    observations = {as_int(event.get("cause")): event for event in events if "observation" in event}
    for event, following in zip(events, [*events[1:], {}], strict=False):
        identity = as_int(event.get("id"))
        if identity is not None:
            yield event, observations.get(identity, {})
        elif "observation" in following:
            yield event, following
        else:
            yield event, {}


def _arguments(event: Members) -> Members:
    inner = event.get("args")
    if isinstance(inner, dict):
        return inner
    return {name: value for name, value in event.items() if name not in _ENVELOPE}


def _content(members: Members) -> Payload:
    text = as_text(members.get("content"))
    images = [url for url in as_list(members.get("image_urls") or members.get("images_urls")) if isinstance(url, str)]
    if not images:
        return text
    return [text_part(text or ""), *({"type": "image_url", "image_url": {"url": url}} for url in images)]


def _success(observation: Members) -> bool | None:
    """Return whether an action succeeded, or None if its observation does not state this."""
    if as_text(observation.get("observation")) in _FAILED:
        return False
    success = stated_flag(observation.get("success"))
    code = as_int(observation.get("exit_code"))
    if success is None and code is not None:
        return code == 0
    return success


FORMAT = Format(name="openhands-v0", reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE))
