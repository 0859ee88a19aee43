"""mini-swe-agent's trajectories: `{"info", "messages", "trajectory_format"}`, or the bare list of messages.

Source: `minisweagent/agents/default.py` (`save`), formats "mini-swe-agent-1" and "mini-swe-agent-1.1". Each assistant
message is one call, which saw the messages before it. The members of a message that models do not see are in `extra`:
cost, time, and of a tool's message the return code. The run ends with a message of role "exit".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trace_recorder.dialects import manual
from trace_recorder.dialects.json_access import as_dict, as_list, as_text
from trace_recorder.imports.foreign.clocks import stated_time
from trace_recorder.imports.foreign.run import Annotation, Call, Conversation, ForeignRun, Kept, Members
from trace_recorder.imports.foreign.source import Source
from trace_recorder.values.messages import Payload, without_none

_FORMAT = "mini-swe-agent"
_SUBMITTED = "Submitted"
_ROLES = {"system", "user", "assistant", "tool"}


def recognizes(source: Source) -> bool:
    """Whether the document states its format, or is a list of messages without any other member."""
    document = source.document
    if isinstance(document, dict):
        stated = document.get("trajectory_format")
        return isinstance(stated, str) and stated.startswith(_FORMAT)
    return bool(document) and isinstance(document, list) and all(map(_is_bare_message, document))


def _is_bare_message(message: Payload) -> bool:
    return isinstance(message, dict) and message.keys() == {"role", "content"} and message["role"] in _ROLES


def read(source: Source) -> Iterator[ForeignRun]:
    """Yield the one run of a file."""
    document = source.document
    members = as_dict(document) if isinstance(document, dict) else {"messages": document}
    info = as_dict(members.get("info"))
    config = as_dict(info.get("config"))
    ended = as_text(info.get("exit_status"))
    yield ForeignRun(
        identity=source.path.name.removesuffix(".json").removesuffix(".traj"),
        events=[*_events(as_list(members.get("messages"))), *_kept(info)],
        model=as_text(as_dict(config.get("model")).get("model_name")),
        status="unknown" if ended is None else "completed" if ended == _SUBMITTED else "failed",
        final_result=info.get("submission"),
        error=None
        if ended in {None, _SUBMITTED}
        else {"type": ended, "message": as_text(info.get("exit_status")) or ""},
        source=without_none(version=info.get("mini_version"), trajectory_format=members.get("trajectory_format")),
        metadata=without_none(config=config or None),
    )


def _events(messages: list[Payload]) -> Iterator[Call | Kept]:
    conversation = Conversation()
    for message in map(as_dict, messages):
        extra = as_dict(message.get("extra"))
        if message.get("role") not in _ROLES:
            yield Kept(
                what=f"message of role {message.get('role')}", value=message, time=stated_time(extra.get("timestamp"))
            )
            continue
        length = len(conversation)
        conversation.add(_message(message))
        if message["role"] == "assistant":
            yield _call(extra, conversation, length)


def _call(extra: Members, conversation: Conversation, length: int) -> Call:
    said = conversation.own[-1]
    cost = extra.get("cost")
    answer = {name: said[name] for name in ("content", "tool_calls", "reasoning") if name in said}
    usage = {"cost": cost} if isinstance(cost, int | float) else {}
    rest = {name: value for name, value in extra.items() if name not in {"cost", "timestamp", "actions"}}
    return Call(
        time=stated_time(extra.get("timestamp")),
        conversation=conversation,
        length=length,
        response=answer | without_none(usage=usage or None, extra=rest or None),
    )


def _message(message: Mapping[str, Payload]) -> Members:
    calls = [manual.read_tool_call(call) for call in as_list(message.get("tool_calls"))]
    extra = as_dict(message.get("extra"))
    code = extra.get("returncode")
    failed = {"is_error": code != 0} if message["role"] == "tool" and isinstance(code, int) else {}
    left = failed | ({} if message["role"] == "assistant" else extra)
    return {"role": message["role"], "content": message.get("content")} | without_none(
        tool_calls=[call.to_document() for call in calls] or None,
        call_id=message.get("tool_call_id"),
        reasoning=message.get("reasoning_content"),
        extra=left or None,
    )


def _kept(info: Members) -> Iterator[Annotation]:
    for name in ("model_stats", "exit_status"):
        if name in info:
            yield Annotation(key=name, value=info[name])
