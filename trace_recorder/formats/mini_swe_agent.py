"""mini-swe-agent's trajectories: `{"info", "messages", "trajectory_format"}`, or the bare list of messages.

Source: `minisweagent/agents/default.py` (`serialize`) and `minisweagent/models/`, formats "mini-swe-agent-1" and 1.1.
Each message of the assistant is one call, which saw the messages before it. With the Responses API, the message is the
response itself. The `extra` of a message is not sent to models. The `extra` of an answer has the response with its
usage, the cost, the time and the actions. The `extra` of an observation has the output and the return code of one
action. If a response has no valid action, there is no message of the assistant. The next message reports the error, and
has the response in its `extra`. The run ends with a message of role "exit".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_number, as_text
from trace_recorder.formats.foreign_runs.run import (
    Call,
    Event,
    ForeignConversation,
    ForeignRun,
    Members,
    TimedFact,
    ToolRun,
)
from trace_recorder.formats.foreign_runs.source import Source
from trace_recorder.formats.foreign_runs.stated_values import stated_members, stated_time, success_of
from trace_recorder.formats.format import Format, FormatReader, HomePlace
from trace_recorder.values.messages import Payload, without_none
from trace_recorder.values.token_counts import WHOLE

_FORMAT = "mini-swe-agent"
_SUBMITTED = "Submitted"
_ROLES = {"system", "user", "assistant", "tool"}
_TOOL = "bash"
"""mini-swe-agent's only tool."""
_OF_CALL = {"cost", "timestamp", "actions", "response", "model_response"}
_OF_TOOL = {"raw_output", "timestamp"}


def recognizes(source: Source) -> bool:
    """Return whether the document names its format, or is a bare list of messages."""
    document = source.document
    if isinstance(document, dict):
        return (as_text(document.get("trajectory_format")) or "").startswith(_FORMAT)
    messages = as_list(document)
    return all(map(_is_bare_message, messages)) and any(_role(message) == "assistant" for message in messages)


def _is_bare_message(message: Payload) -> bool:
    if not isinstance(message, dict) or message.keys() != {"role", "content"}:
        return False
    return isinstance(message["content"], str) and _role(message) in _ROLES


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the run of a file."""
    document = source.document
    members = {"messages": document} if isinstance(document, list) else as_dict(document)
    info = as_dict(members.get("info"))
    config = as_dict(info.get("config"))
    messages = [as_dict(message) for message in as_list(members.get("messages"))]
    run = ForeignRun(
        identity=source.path.name.removesuffix(".json").removesuffix(".traj"),
        events=[*_MiniSweReader().events(messages)],
        model=as_text(as_dict(config.get("model")).get("model_name")),
        final_result=info.get("submission") or None,
        source=without_none(version=info.get("mini_version"), trajectory_format=members.get("trajectory_format")),
        metadata=without_none(config=config or None),
    )
    for name, value in stated_members(info, ("model_stats", "exit_status")).items():
        run.events.append(TimedFact.annotation(key=name, value=value))
    exit_status = as_text(info.get("exit_status"))
    if exit_status == _SUBMITTED:
        run.status = "completed"
    elif exit_status:
        last = as_dict(next(reversed(messages), {}).get("extra"))
        message = as_text(last.get("exception_str")) or f"the run ended with {exit_status}"
        traceback = without_none(traceback=as_text(last.get("traceback")))
        run.status, run.error = "failed", {"type": exit_status, "message": message, **traceback}
    yield run


@dataclass(slots=True)
class _MiniSweReader:
    """A reader of the messages.

    `actions` are the actions of the last call that have no output yet. `call_time` is the time of that call.
    """

    conversation: ForeignConversation = field(default_factory=ForeignConversation)
    actions: list[Members] = field(default_factory=list)
    call_time: str = ""

    def events(self, messages: list[Members]) -> Iterator[Event]:
        for message in messages:
            extra = as_dict(message.get("extra"))
            time = stated_time(extra.get("timestamp"))
            role = _role(message)
            if role not in _ROLES:
                yield TimedFact.unread(what=f"message of role {role}", value=message, time=time)
                continue
            if role == "assistant" or "response" in extra or "model_response" in extra:
                yield self._call(message, role, extra, time)
            if "returncode" in extra:
                yield self._tool(message, extra, time)
            self.conversation.add(_message(message, role))
            if actions := as_list(extra.get("actions")):
                self.actions, self.call_time = [as_dict(action) for action in actions], time

    def _call(self, message: Members, role: str, extra: Members, time: str) -> Call:
        rest: Members = {}
        if role == "assistant":
            response = _response(message, extra)
            rest = {name: value for name, value in extra.items() if name not in _OF_CALL}
        else:
            response = _refused_response(extra)
        usage = as_dict(response.get("usage")) | without_none(cost=as_number(extra.get("cost")))
        response |= without_none(usage=usage or None, extra={**as_dict(response.get("extra")), **rest} or None)
        return Call(time=time, conversation=self.conversation, length=len(self.conversation), response=response)

    def _tool(self, message: Members, extra: Members, time: str) -> ToolRun:
        identity = as_text(message.get("tool_call_id")) or as_text(message.get("call_id"))
        action = next((action for action in self.actions if action.get("tool_call_id") == identity), {})
        self.actions = [other for other in self.actions if other is not action]
        return ToolRun(
            time=self.call_time,
            name=_TOOL,
            arguments={name: value for name, value in action.items() if name != "tool_call_id"} or None,
            call_id=identity,
            ended=time,
            success=success_of(_has_failed(extra)),
            result=extra.get("raw_output", message.get("content")),
            error=as_text(extra.get("exception_info")) or None,
        )


def _role(message: Members) -> str:
    if message.get("object") == "response" and isinstance(message.get("output"), list):
        return "assistant"
    if message.get("type") == "function_call_output":
        return "tool"
    return as_text(message.get("role")) or ""


def _has_failed(extra: Members) -> bool | None:
    """Return whether an action returned another code than 0, or None if its code is unknown."""
    code = as_int(extra.get("returncode"))
    return None if code is None else code != 0


def _response(message: Members, extra: Members) -> Members:
    """Return the answer in a message, with the members of the whole response that the message lacks."""
    if "output" in message:
        return manual.read_response({name: value for name, value in message.items() if name != "extra"}).to_document()
    whole = manual.read_response(as_dict(extra.get("response"))).to_document()
    facts = {name: whole[name] for name in ("usage", "finish_reason", "model", "id", "extra") if whole.get(name)}
    return facts | {name: value for name, value in _message(message, "assistant").items() if name != "role"}


def _refused_response(extra: Members) -> Members:
    """Return the response that had no valid action."""
    response = extra.get("response", extra.get("model_response"))
    if isinstance(response, dict):
        return manual.read_response(response).to_document()
    return {"content": response}


def _message(message: Members, role: str) -> Members:
    if "output" in message and role == "assistant":
        response = _response(message, {})
        return {"role": role, **{name: response.get(name) for name in ("content", "tool_calls", "reasoning")}}
    calls = [manual.read_tool_call(call) for call in as_list(message.get("tool_calls"))]
    extra = as_dict(message.get("extra"))
    remaining: Members = {}
    if role != "assistant":
        remaining = {name: value for name, value in extra.items() if name not in _OF_CALL | _OF_TOOL}
    if role == "tool":
        remaining |= without_none(is_error=_has_failed(extra))
    return {"role": role, "content": message.get("content", message.get("output"))} | without_none(
        tool_calls=[call.to_document() for call in calls] or None,
        call_id=message.get("tool_call_id", message.get("call_id")),
        reasoning=as_text(message.get("reasoning_content")),
        extra=remaining or None,
    )


FORMAT = Format(
    name="mini-swe-agent",
    reader=FormatReader(recognizes=recognizes, read=read, counting=WHOLE),
    home=(
        HomePlace(
            program="mini-swe-agent",
            directory=".config/mini-swe-agent",
            files=("*.traj.json",),
            variable="MSWEA_GLOBAL_CONFIG_DIR",
        ),
    ),
)
